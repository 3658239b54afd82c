-- Record what the configuration says of a queue, and with it that the keys are this queue's.
--
-- KEYS[1]  hash  queue_key  true name, format
-- ARGV[1]  text  queue
-- ARGV[2]  text  format     'legacy' or 'modern'; '' leaves it
-- RETURN   { now_us, 'OK' }, { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(1)

local queue_key = KEYS[1]
local queue, format = ARGV[1], ARGV[2]

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = refuse(now_us, queue_key, queue, {})
if refused then return refused end

redis.call('HSET', queue_key, 'name', queue)
if format == 'legacy' then redis.call('HSET', queue_key, 'format', format) end
if format == 'modern' then redis.call('HDEL', queue_key, 'format') end
return { now_us, 'OK' }
