-- Pause a schedule, or forget it.
--
-- KEYS[1]  string  call     number and reply of this link's last call
-- KEYS[2]  zset    timeout  says whose the keys are where nothing is recorded
-- KEYS[3]  hash    record   true name
-- KEYS[4]  zset    crons    name -> next occurrence, ms; inf while it is paused
-- KEYS[5]  hash    cron     specifications, payloads and last moments: see _cron.lua
-- KEYS[6]  none    guard    the channel's name, never a key: see _begin.lua
-- ARGV[1]  int     number   of this call
-- ARGV[2]  int     valid_until_ms
-- ARGV[3]  text    queue
-- ARGV[4]  text    name
-- ARGV[5]  text    how      'PAUSE' or 'DEL'
-- RETURN   { now_us, 'OK', 0 | 1 }: 1 if it ran and is paused now, or was there and is gone;
--          { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--          { now_us, 'BADQUEUE', true name }
-- COST     O(log schedules)

local _, timeout, record, crons, cron = unpack(KEYS)
local _, _, queue_name, name, how = unpack(ARGV)

local now_us, queue, refused = Begin.write(record, queue_name, {
  timeout, 'zset', crons, 'zset', cron, 'hash',
})
if refused then return refused end

local score = redis.call('ZSCORE', crons, name)
local changed = 0
if how == 'DEL' then
  local fields = redis.call('HDEL', cron, 'spec:' .. name, 'payload:' .. name, 'last:' .. name)
  changed = math.max(redis.call('ZREM', crons, name), math.min(fields, 1))
elseif score and tonumber(score) < 1e15 then
  -- ZREM frees, so the ZADD is let through even out of memory.
  redis.call('ZREM', crons, name)
  redis.call('ZADD', crons, 'inf', name)
  changed = 1
end
return Call.applied({ now_us, 'OK', changed })
