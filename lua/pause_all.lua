-- Pause all queues, or end that: until then no broker moves a message of any queue. The end of a
-- pause stays recorded: lateness is counted from there.
--
-- KEYS[1]  string  call         number and reply of this link's last call
-- KEYS[2]  hash    all          pause of all queues
-- KEYS[3]  none    guard        the channel's name, never a key: see _begin.lua
-- ARGV[1]  int     number       of this call
-- ARGV[2]  int     valid_until_ms
-- ARGV[3]  int     duration_ms  -1: until resumed; 0: it ends now
-- RETURN   { now_us, 'OK', was_paused 0 | 1 }, { now_us, 'LATE' | 'SETTLED' },
--          { now_us, 'WRONGTYPE', key }
-- COST     O(1)

local all, duration_ms = KEYS[2], ARGV[3]

local now_us, refused = Begin.call()
if refused then return refused end
local kind = redis.call('TYPE', all).ok
if kind ~= 'none' and kind ~= 'hash' then
  return Call.applied({ now_us, 'WRONGTYPE', all })
end

local was_paused = Pause.of(false, redis.call('HGET', all, 'paused_until'), now_us / 1000) ~= ''
local duration = tonumber(duration_ms)
if was_paused or duration ~= 0 then
  local until_ms = -1
  if duration == 0 then
    until_ms = math.floor(now_us / 1000)
  elseif duration > 0 then
    until_ms = math.ceil(now_us / 1000) + duration
  end
  -- HDEL frees, so the HSET is let through even out of memory.
  redis.call('HDEL', all, 'paused_until')
  redis.call('HSET', all, 'paused_until', string.format('%.0f', until_ms))
end
return Call.applied({ now_us, 'OK', was_paused and 1 or 0 })
