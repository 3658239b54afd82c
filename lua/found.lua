-- Read whose the keys are and when the next message is due, of many queues that were just found.
--
-- KEYS[1..] zset, hash  timeout, queue_key of each queue in turn, at most 1,000
-- RETURN    { now_us, 'OK', name, head... }: of each queue; name: the recorded one, '' if none;
--           head: its score, '' if nothing is pending, 'WRONGTYPE' if the key holds no zset
-- COST      O(log pending) for each queue

local keys = KEYS

local time = redis.call('TIME')
local reply = { time[1] * 1000000 + time[2], 'OK' }
for i = 1, #keys, 2 do
  local head = redis.pcall('ZRANGE', keys[i], 0, 0, 'WITHSCORES')
  -- Nothing recorded is false, another type a table.
  local name = redis.pcall('HGET', keys[i + 1], 'name')
  reply[i + 2] = type(name) == 'string' and name or ''
  reply[i + 3] = head.err and 'WRONGTYPE' or head[2] or ''
end
return reply
