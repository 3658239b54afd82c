-- Pause a queue: no broker moves its messages until the pause ends.
--
-- KEYS[1]  string  call         number and reply of this link's last call
-- KEYS[2]  hash    queue_key    true name, pause
-- ARGV[1]  int     number       of this call
-- ARGV[2]  int     valid_until_ms
-- ARGV[3]  text    queue
-- ARGV[4]  int     duration_ms  0: until resumed
-- RETURN   { now_us, 'OK' }, { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--          { now_us, 'BADQUEUE', true name }
-- COST     O(1)

local call_key, queue_key = KEYS[1], KEYS[2]
local number, valid_until_ms, queue, duration_ms = unpack(ARGV)

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = guard(call_key, number, valid_until_ms, now_us / 1000)
if refused then return { now_us, refused } end
refused = refuse(now_us, queue_key, queue, {})
if refused then return applied(call_key, number, refused) end

local duration = tonumber(duration_ms)
local until_ms = duration > 0 and math.ceil(now_us / 1000) + duration or -1
-- HDEL frees, so the HSET is let through even out of memory.
redis.call('HDEL', queue_key, 'paused_until')
redis.call('HSET', queue_key, 'name', queue, 'paused_until', string.format('%.0f', until_ms))
return applied(call_key, number, { now_us, 'OK' })
