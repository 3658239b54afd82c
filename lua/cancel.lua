-- Take messages out by id or name, so that they are never delivered.
--
-- KEYS[1]   string  call       number and reply of this link's last call
-- KEYS[2]   zset    timeout    member -> due, Unix ms
-- KEYS[3]   list    list       the members in offer order
-- KEYS[4]   hash    record     true name, order_list
-- KEYS[5]   hash    names      name -> message id
-- KEYS[6]   hash    ids        hex of the id -> name
-- KEYS[7]   none    guard      the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number     of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4..] text    messages   score, id bytes; or '', name; of each message
-- RETURN    { now_us, 'OK', cancelled, done }, { now_us, 'LATE' | 'SETTLED' },
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
--           done: how many of the messages it came to, where that was not all
-- COST      O(log pending) for each message, up to 1 MiB of members, and two passes over the list

local _, timeout, list, record, names, ids = unpack(KEYS)

local now_us, queue, refused = Begin.write(record, ARGV[3], {
  timeout, 'zset', list, 'list', names, 'hash', ids, 'hash',
})
if refused then return refused end

local bytes_max, passed_max = 1048576, 600000 -- of members; elements that LREM passes: 15 ms
local members, before, seen, done, bytes = {}, {}, {}, 0, 0
for i = 4, #ARGV, 2 do
  local member = Find.member(timeout, names, ARGV[i], ARGV[i + 1])
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
if done == (#ARGV - 3) / 2 then done = nil end
return Call.applied({ now_us, 'OK', #taken, done })
