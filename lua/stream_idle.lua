-- Delete the consumers of a group that have not asked for long and hold nothing.
--
-- KEYS[1]  stream  destination
-- KEYS[2]  stream  again        retries of this group, where the stream has several
-- KEYS[3]  zset    timeout      member -> due, Unix ms; says only whose the keys are
-- KEYS[4]  hash    record       true name, settings
-- KEYS[5]  none    guard        the channel's name, never a key: see _begin.lua
-- ARGV[1]  text    queue
-- ARGV[2]  bytes   group
-- ARGV[3]  int     idle_ms      of a queue that sets none
-- ARGV[4]  int     most         consumers that one call deletes
-- RETURN   { now_us, 'OK', deleted }. { now_us, 'NOSTREAM' }: no stream, or its keeper is off.
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(consumers)

local destination, again = KEYS[1], KEYS[2]
local group, most = ARGV[2], tonumber(ARGV[4])

local now_us, queue, refused = Begin.read(KEYS[4], ARGV[1], {
  again, 'stream', KEYS[3], 'zset',
})
if refused then return refused end
refused = Stream.refusal(now_us, queue, destination)
if refused then return refused end
local idle_ms = Record.setting(queue.settings, 'consumer_idle_ms') or tonumber(ARGV[3])
local is_off = Record.setting(queue.settings, 'keeper') == 1 or idle_ms == 0
if is_off then return { now_us, 'NOSTREAM' } end

local deleted = 0
for _, stream in ipairs({ destination, again }) do
  local found = redis.pcall('XINFO', 'CONSUMERS', stream, group)
  for i = 1, found.err and 0 or #found do
    local its = Stream.by_name(found[i])
    if deleted < most and its.pending == 0 and its.idle > idle_ms then
      redis.call('XGROUP', 'DELCONSUMER', stream, group, its.name)
      deleted = deleted + 1
    end
  end
end
return { now_us, 'OK', deleted }
