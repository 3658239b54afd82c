-- End a pause. Its end stays recorded: lateness is counted from there.
--
-- KEYS[1]  string  call       number and reply of this link's last call
-- KEYS[2]  hash    queue_key  true name, pause
-- ARGV[1]  int     number     of this call
-- ARGV[2]  int     valid_until_ms
-- ARGV[3]  text    queue
-- RETURN   { now_us, 'OK', was_paused 0 | 1 }, { now_us, 'LATE' | 'SETTLED' },
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(1)

local call_key, queue_key = KEYS[1], KEYS[2]
local number, valid_until_ms, queue = unpack(ARGV)

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = guard(call_key, number, valid_until_ms, now_us / 1000)
if refused then return { now_us, refused } end
refused = refuse(now_us, queue_key, queue, {})
if refused then return applied(call_key, number, refused) end

local until_ms = tonumber(redis.call('HGET', queue_key, 'paused_until') or 0)
if until_ms >= 0 and until_ms <= now_us / 1000 then
  return applied(call_key, number, { now_us, 'OK', 0 })
end
-- HDEL frees, so the HSET is let through even out of memory.
redis.call('HDEL', queue_key, 'paused_until')
local ended_ms = string.format('%.0f', math.floor(now_us / 1000))
redis.call('HSET', queue_key, 'name', queue, 'paused_until', ended_ms)
return applied(call_key, number, { now_us, 'OK', 1 })
