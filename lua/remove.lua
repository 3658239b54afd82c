-- Take out messages by id that carry this payload; each that is still pending counts.
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
-- ARGV[4]   bytes   payload
-- ARGV[5]   int     bytes_max  of the messages; one is removed however large
-- ARGV[6..] text    messages   score, id bytes of each
-- RETURN    { now_us, 'OK', removed, done }: how many messages of those given were dealt with; the
--           others are for the next call. { now_us, 'LATE' | 'SETTLED' },
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST      O(log pending) for each message, and two passes over the list where one is kept

local _, timeout, list, record, names, ids = unpack(KEYS)
local _, _, _, payload, bytes_max = unpack(ARGV, 1, 5)

local now_us, queue, refused = Begin.write(record, ARGV[3], {
  timeout, 'zset', list, 'list', names, 'hash', ids, 'hash',
})
if refused then return refused end

local passed_max = 600000 -- elements that LREM passes: 15 ms
local members, before, seen, done, bytes = {}, {}, {}, 0, 0
bytes_max = tonumber(bytes_max)
for i = 6, #ARGV, 2 do
  if bytes >= bytes_max then break end
  local member = Find.member(timeout, names, ARGV[i], ARGV[i + 1], payload)
  if member and not seen[member] then
    seen[member] = true
    members[#members + 1], before[#members + 1] = member, done
    bytes = bytes + #member
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
return Call.applied({ now_us, 'OK', #taken, done })
