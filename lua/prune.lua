-- Forget a queue that has nothing pending: out of the registry, and its hash if nothing in it would
-- be missed. A name with `{` would be: its keys alone would say another one.
--
-- KEYS[1]  zset  timeout    member -> due, Unix ms
-- KEYS[2]  list  list       the members in offer order
-- KEYS[3]  hash  queue_key  true name, pause, format, order_list
-- KEYS[4]  set   registry   queues the brokers know
-- ARGV[1]  text  queue
-- RETURN   { now_us, 'OK', pruned 0 | 1 },
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(1)

local timeout, list, queue_key, registry = unpack(KEYS)
local queue = ARGV[1]

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused, keeps_list = refuse(now_us, queue_key, queue, {
  timeout, 'zset', list, 'list', registry, 'set',
})
if refused then return refused end
if redis.call('EXISTS', timeout, list) > 0 then return { now_us, 'OK', 0 } end

redis.call('SREM', registry, queue)
local recorded = redis.call('HMGET', queue_key, 'paused_until', 'format')
local until_ms = tonumber(recorded[1] or 0)
local paused = until_ms < 0 or until_ms > now_us / 1000
local plain = not recorded[2] and keeps_list and not string.find(queue, '{', 1, true)
if not paused and plain then
  redis.call('DEL', queue_key)
end
return { now_us, 'OK', 1 }
