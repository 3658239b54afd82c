-- Read the sizes of many queues: metrics, lists of queues.
--
-- KEYS[1..] zset, list  timeout, destination of each queue in turn
-- RETURN    { now_us, 'OK', pending, ready, next_due... }: of each queue; -1 where a key holds
--           another type; next_due: score of the head, '' if none
-- COST      O(log pending) for each queue

local keys = KEYS

local time = redis.call('TIME')
local reply = { time[1] * 1000000 + time[2], 'OK' }
for i = 1, #keys, 2 do
  local pending = redis.pcall('ZCARD', keys[i])
  local ready = redis.pcall('LLEN', keys[i + 1])
  local head = redis.pcall('ZRANGE', keys[i], 0, 0, 'WITHSCORES')
  local size = #reply
  reply[size + 1] = type(pending) == 'number' and pending or -1
  reply[size + 2] = type(ready) == 'number' and ready or -1
  reply[size + 3] = head[2] or ''
end
return reply
