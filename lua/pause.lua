-- Pause a queue: no broker moves its messages until the pause ends. The name is recorded.
--
-- KEYS[1]  string  call         number and reply of this link's last call
-- KEYS[2]  zset    timeout      says whose the keys are where nothing is recorded
-- KEYS[3]  hash    record       true name, pause
-- KEYS[4]  none    guard        the channel's name, never a key: see _begin.lua
-- ARGV[1]  int     number       of this call
-- ARGV[2]  int     valid_until_ms
-- ARGV[3]  text    queue
-- ARGV[4]  int     duration_ms  0: until resumed
-- RETURN   { now_us, 'OK' }, { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--          { now_us, 'BADQUEUE', true name }
-- COST     O(1)

local _, timeout, record = unpack(KEYS)
local _, _, name, duration_ms = unpack(ARGV)

local now_us, queue, refused = Begin.write(record, name, { timeout, 'zset' })
if refused then return refused end

local duration = tonumber(duration_ms)
local until_ms = duration > 0 and math.ceil(now_us / 1000) + duration or -1
-- HDEL frees, so the HSET is let through even out of memory.
redis.call('HDEL', record, 'paused_until')
redis.call('HSET', record, 'name', name, 'paused_until', string.format('%.0f', until_ms))
return Call.applied({ now_us, 'OK' })
