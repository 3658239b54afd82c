-- Takes messages out that are given by id or name: out of the zset, the order list and the names.
-- Keeps: a message that is given twice is taken once; what one call does is bounded.
--
-- KEYS as cancel.lua and remove.lua have them.

local passed_max = 600000 -- elements that LREM passes: 15 ms

-- Takes the messages that are given from the index `first` on, as score and id bytes or as '' and
-- name; with a payload, only those that carry it. One is taken however large; more while their
-- members have no more than `bytes_max`. Returns how many were taken, and how many of those given
-- were dealt with: the others are for the next call.
function TakeOut.given(given, first, queue, bytes_max, payload)
  local _, timeout, list, _, names, ids = unpack(KEYS)
  local members, before, seen, done, bytes = {}, {}, {}, 0, 0
  for i = first, #given, 2 do
    local member = Find.member(timeout, names, given[i], given[i + 1], payload)
    if member and not seen[member] then
      bytes = bytes + #member
      if bytes > bytes_max and #members > 0 then break end
      seen[member] = true
      members[#members + 1], before[#members + 1] = member, done
    end
    done = done + 1
  end
  local planned = queue.keeps_list and List.plan(list, members, passed_max)
  if planned and planned.count < #members then done = before[planned.count + 1] end

  -- The write that frees memory goes first: then Redis lets the others follow at its limit.
  local taken = {}
  for i = 1, planned and planned.count or #members do
    redis.call('ZREM', timeout, members[i])
    taken[i] = Member.hex(Member.id(members[i]))
  end
  if planned then List.strike(list, planned) end
  Names.forget(timeout, names, ids, taken)
  return #taken, done
end
