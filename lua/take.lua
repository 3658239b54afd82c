-- Take pending messages by id and hand out their payloads, where no order list is kept; at most
-- once.
--
-- KEYS[1]   string  call       number of this link's last call
-- KEYS[2]   zset    timeout    member -> due, Unix ms
-- KEYS[3]   hash    queue_key  true name of the queue
-- KEYS[4]   hash    names      name -> message id
-- KEYS[5]   hash    ids        hex of the id -> name
-- ARGV[1]   int     number     of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   int     bytes_max  of members; one message is taken however large
-- ARGV[5..] text    messages   score, id bytes of each
-- RETURN    { now_us, 'OK', full 0 | 1, payload... }, full where bytes_max ended it; those that are
--           not pending any more are left out. { now_us, 'LATE' | 'SETTLED' },
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
--           The payloads are not stored for settling: there the reply is { now_us, 'APPLIED' }
-- COST      O(log pending) for each message

local call_key, timeout, queue_key, names, ids = unpack(KEYS)
local number, valid_until_ms, queue, bytes_max = unpack(ARGV, 1, 4)

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = guard(call_key, number, valid_until_ms, now_us / 1000)
if refused then return { now_us, refused } end
refused = refuse(now_us, queue_key, queue, { timeout, 'zset', names, 'hash', ids, 'hash' })
if refused then return applied(call_key, number, refused) end

local reply, bytes, taken = { now_us, 'OK', 0 }, 0, {}
bytes_max = tonumber(bytes_max)
for i = 5, #ARGV, 2 do
  local member = find(timeout, names, ARGV[i], ARGV[i + 1])
  if member then
    if bytes + #member > bytes_max and bytes > 0 then
      reply[3] = 1
      break
    end
    bytes = bytes + #member
    local payload, id = read(member)
    redis.call('ZREM', timeout, member)
    reply[#reply + 1] = payload
    taken[#taken + 1] = hex(id)
  end
end
forget(names, ids, taken)
applied(call_key, number, { now_us, 'APPLIED' })
return reply
