-- Read the sizes of many queues: metrics, lists of queues.
--
-- KEYS[1..] zset, list, hash  timeout, destination, queue_key of each queue in turn
-- RETURN    { now_us, 'OK', pending, ready, next_due, paused... }: of each queue; -1 where a key
--           holds another type; next_due: score of the head, '' if none; paused: 1 | 0
-- COST      O(log pending) for each queue

local keys = KEYS

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local reply = { now_us, 'OK' }
for i = 1, #keys, 3 do
  local pending = redis.pcall('ZCARD', keys[i])
  local ready = redis.pcall('LLEN', keys[i + 1])
  local head = redis.pcall('ZRANGE', keys[i], 0, 0, 'WITHSCORES')
  -- Nothing recorded is false, another type a table: both are no number.
  local until_ms = redis.pcall('HGET', keys[i + 2], 'paused_until')
  until_ms = type(until_ms) == 'string' and tonumber(until_ms) or 0
  local size = #reply
  reply[size + 1] = type(pending) == 'number' and pending or -1
  reply[size + 2] = type(ready) == 'number' and ready or -1
  reply[size + 3] = head[2] or ''
  reply[size + 4] = (until_ms < 0 or until_ms > now_us / 1000) and 1 or 0
end
return reply
