-- Take out of a stream what all of its groups have acknowledged.
--
-- KEYS[1]  stream  destination
-- KEYS[2]  stream  again        retries of one group, where the stream has several
-- KEYS[3]  zset    timeout      member -> due, Unix ms; says only whose the keys are
-- KEYS[4]  hash    record       true name, settings
-- KEYS[5]  none    guard        the channel's name, never a key: see _begin.lua
-- ARGV[1]  text    queue
-- ARGV[2]  text    which        '': the destination is trimmed; 'AGAIN': the other one
-- ARGV[3]  int     keep_ms      entries that are younger stay; of a queue that sets none
-- ARGV[4]  int     most         entries that one call takes out, about
-- RETURN   { now_us, 'OK', trimmed, more 0 | 1 }: how many, and whether there may be more.
--          { now_us, 'NOSTREAM' }: no stream, no group, or its keeper is off: nothing is taken out.
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(groups + most)

local destination, again = KEYS[1], KEYS[2]
local most = tonumber(ARGV[4])

local now_us, queue, refused = Begin.read(KEYS[4], ARGV[1], {
  again, 'stream', KEYS[3], 'zset',
})
if refused then return refused end
refused = Stream.refusal(now_us, queue, destination)
if refused then return refused end
if Record.setting(queue.settings, 'keeper') == 1 then return { now_us, 'NOSTREAM' } end
local stream = ARGV[2] == 'AGAIN' and again or destination
local groups, count = Stream.groups(stream)
if count == 0 then return { now_us, 'NOSTREAM' } end

-- Before this entry all have acknowledged all.
local low
for name, group in pairs(groups) do
  local its = Stream.after(group['last-delivered-id'])
  if group.pending > 0 then
    local least = redis.call('XPENDING', stream, name)[2]
    if least and Stream.precedes(least, its) then its = least end
  end
  if not low or Stream.precedes(its, low) then low = its end
end
local keep_ms = Record.setting(queue.settings, 'stream_keep_ms') or tonumber(ARGV[3])
if keep_ms > 0 then
  local kept = string.format('%.0f-0', math.max(0, math.floor(now_us / 1000) - keep_ms))
  if Stream.precedes(kept, low) then low = kept end
end
local trimmed = redis.call('XTRIM', stream, 'MINID', '~', low, 'LIMIT', most)
-- Redis stops before the node with which it would be more than that. Else whole nodes are gone, and
-- of the first one that is left a part goes too.
local more = trimmed > most / 2
if not more then trimmed = trimmed + redis.call('XTRIM', stream, 'MINID', low) end
return { now_us, 'OK', trimmed, more and 1 or 0 }
