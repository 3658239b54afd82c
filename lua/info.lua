-- Read the state of one queue.
--
-- KEYS[1]  list  destination  may hold another type
-- KEYS[2]  zset  timeout      member -> due, Unix ms
-- KEYS[3]  list  list         the members in offer order
-- KEYS[4]  hash  queue_key    true name, pause, format, order_list
-- KEYS[5]  hash  names        name -> message id
-- KEYS[6]  zset  quarantine   unreadable member -> its score
-- ARGV[1]  text  queue
-- RETURN   { now_us, 'OK', pending, ready, next_due, listed, quarantined, paused_until, format,
--          ttl_ms, named, layout },
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
--          ready: -1 if the destination is no list. next_due: score of the head, '' if none.
--          paused_until: ms, -1 until resumed, '' if not paused. format: 'modern' | 'legacy'.
--          ttl_ms: the least of timeout and list, -1 if neither expires. layout: 'redisson', or
--          'zset' where no order list is kept
-- COST     O(log pending)

local destination, timeout, list, queue_key, names, quarantine = unpack(KEYS)
local queue = ARGV[1]

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused, keeps_list = refuse(now_us, queue_key, queue, {
  timeout, 'zset', list, 'list', names, 'hash', quarantine, 'zset',
})
if refused then return refused end

local ready = redis.pcall('LLEN', destination)
local head = redis.call('ZRANGE', timeout, 0, 0, 'WITHSCORES')
local recorded = redis.call('HMGET', queue_key, 'paused_until', 'format')
local paused_until = recorded[1] or '0'
local until_ms = tonumber(paused_until)
if until_ms >= 0 and until_ms <= now_us / 1000 then paused_until = '' end
local ttl_ms, other_ttl_ms = redis.call('PTTL', timeout), redis.call('PTTL', list)
if ttl_ms < 0 or (other_ttl_ms >= 0 and other_ttl_ms < ttl_ms) then ttl_ms = other_ttl_ms end

return {
  now_us, 'OK',
  redis.call('ZCARD', timeout),
  type(ready) == 'number' and ready or -1,
  head[2] or '',
  redis.call('LLEN', list),
  redis.call('ZCARD', quarantine),
  paused_until,
  recorded[2] or 'modern',
  math.max(ttl_ms, -1),
  redis.call('HLEN', names),
  keeps_list and 'redisson' or 'zset',
}
