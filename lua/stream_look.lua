-- Say what there is of a queue whose destination is a stream, and make the groups that its settings
-- name where they are missing.
--
-- KEYS[1]  stream  destination
-- KEYS[2]  zset    timeout      member -> due, Unix ms; says only whose the keys are
-- KEYS[3]  hash    record       true name, settings
-- KEYS[4]  zset    retry        id and group -> when it comes again, ms
-- KEYS[5]  none    guard        the channel's name, never a key: see _begin.lua
-- ARGV[1]  text    queue
-- RETURN   { now_us, 'OK', settings, next, name, pending, lag, consumers... }: next: when the first
--          retry is due, ms, or ''. Of each group its name, the entries that it was given and has
--          not acknowledged, those that it was not given yet ('' where Redis cannot tell, as before
--          7.0), and how many consumers it has.
--          { now_us, 'NOSTREAM' }: the destination is no stream.
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(groups)

local destination, timeout, record, retry = unpack(KEYS)

local now_us, queue, refused = Begin.read(record, ARGV[1], { timeout, 'zset', retry, 'zset' })
if refused then return refused end
refused = Stream.refusal(now_us, queue, destination)
if refused then return refused end

local groups = Stream.groups(destination)
local missing = false
for name in string.gmatch(Record.words(queue.settings, 'groups'), '[^,]+') do
  if not groups[name] then
    Stream.make(destination, name)
    missing = true
  end
end
if missing then groups = Stream.groups(destination) end

local reply = { now_us, 'OK', queue.settings, Lease.next({ retry = retry }, { 'retry' }) }
for name, group in pairs(groups) do
  local at = #reply
  reply[at + 1], reply[at + 2], reply[at + 3] = name, group.pending, group.lag or ''
  reply[at + 4] = group.consumers
end
return reply
