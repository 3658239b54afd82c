-- Read the next due time of many queues: the safety scan.
--
-- KEYS[1..] zset  timeout  of each queue, at most 1,000
-- RETURN    { now_us, 'OK', head... }: score of each head, '' if none, 'WRONGTYPE' if no zset
-- COST      O(log pending) for each queue

local timeouts = KEYS

local time = redis.call('TIME')
local reply = { time[1] * 1000000 + time[2], 'OK' }
for i = 1, #timeouts do
  local head = redis.pcall('ZRANGE', timeouts[i], 0, 0, 'WITHSCORES')
  reply[i + 2] = head.err and 'WRONGTYPE' or head[2] or ''
end
return reply
