-- End a pause. Its end stays recorded: lateness is counted from there.
--
-- KEYS[1]  string  call       number and reply of this link's last call
-- KEYS[2]  zset    timeout    says whose the keys are where nothing is recorded
-- KEYS[3]  hash    record     true name, pause
-- KEYS[4]  none    guard      the channel's name, never a key: see _begin.lua
-- ARGV[1]  int     number     of this call
-- ARGV[2]  int     valid_until_ms
-- ARGV[3]  text    queue
-- RETURN   { now_us, 'OK', was_paused 0 | 1 }, { now_us, 'LATE' | 'SETTLED' },
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(1)

local _, timeout, record = unpack(KEYS)

local now_us, queue, refused = Begin.write(record, ARGV[3], { timeout, 'zset' })
if refused then return refused end

if Pause.of(queue.paused_until, false, now_us / 1000) == '' then
  return Call.applied({ now_us, 'OK', 0 })
end
-- HDEL frees, so the HSET is let through even out of memory.
redis.call('HDEL', record, 'paused_until')
local ended_ms = string.format('%.0f', math.floor(now_us / 1000))
redis.call('HSET', record, 'paused_until', ended_ms)
Wake.publish(record, '0')
return Call.applied({ now_us, 'OK', 1 })
