-- Let come again what consumers of a group of a stream did not acknowledge within the lease. What
-- has no attempt left is dead.
--
-- KEYS[1]  stream  destination
-- KEYS[2]  stream  again        retries of this group, where the stream has several
-- KEYS[3]  zset    timeout      member -> due, Unix ms; says only whose the keys are
-- KEYS[4]  hash    record       true name, settings
-- KEYS[5]  zset    retry        id and group -> when it comes again, ms
-- KEYS[6]  zset    dead         the same -> died, ms
-- KEYS[7]  hash    taken        the same -> fields
-- KEYS[8]  hash    tries        the same -> deliveries, base, reason: see _lease.lua
-- KEYS[9]  none    guard        the channel's name, never a key: see _begin.lua
-- ARGV[1]  text    queue
-- ARGV[2]  bytes   group
-- ARGV[3]  text    which        '': entries of the destination; 'AGAIN': of the group's own stream
-- ARGV[4]  int     lease_ms     of a queue that sets none
-- ARGV[5]  int     limit        the same
-- ARGV[6]  int     looks_max    entries that are looked at
-- ARGV[7]  int     bytes_max    of entries that are read; one is however large
-- ARGV[8]  text    after        begin behind this entry; '': at the first
-- RETURN   { now_us, 'OK', cursor, looked, again, died }: cursor: where to go on, '' at the end.
--          looked: entries that were looked at; again: those that come again; died: those that are
--          dead. Every call may be repeated.
--          { now_us, 'NOSTREAM' }: no stream, no such group, or its keeper is off.
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(looks_max); nothing is looked at that was added within the lease, unless ids are ahead
--          of Redis's clock

local destination, again = KEYS[1], KEYS[2]
local keys = { retry = KEYS[5], dead = KEYS[6], taken = KEYS[7], tries = KEYS[8] }
local group, which = ARGV[2], ARGV[3]
local looks_max, bytes_max, after = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local treated_max = 100 -- that come again, or die, in one call
local early_max = 16 -- entries that are read within their lease

local now_us, queue, refused = Begin.read(KEYS[4], ARGV[1], {
  again, 'stream', KEYS[3], 'zset', keys.retry, 'zset', keys.dead, 'zset',
  keys.taken, 'hash', keys.tries, 'hash',
})
if refused then return refused end
refused = Stream.refusal(now_us, queue, destination)
if refused then return refused end
if Record.setting(queue.settings, 'keeper') == 1 then return { now_us, 'NOSTREAM' } end
local groups, count = Stream.groups(destination)
if not groups[group] then return { now_us, 'NOSTREAM' } end
local target, own = Stream.target(destination, again, group, count)
local stream, its = destination, groups[group]
if which == 'AGAIN' then stream, its = again, Stream.groups(again)[group] end
if not its then return { now_us, 'NOSTREAM' } end

local lease_ms, limit = Lease.terms(queue, '-' .. ARGV[4], ARGV[5])
local now_ms = math.floor(now_us / 1000)
-- An entry that was added within the lease cannot have been held for longer.
local newest = '+'
if tonumber(string.match(its['last-delivered-id'], '^%d+')) <= now_ms then
  newest = string.format('%d', math.max(0, now_ms - lease_ms))
end
local found = redis.call('XPENDING', stream, group, after == '' and '-' or '(' .. after, newest,
  looks_max)

local looked, bytes, treated, early, died = 0, 0, 0, 0, 0
local cursor = #found == looks_max and found[#found][1] or ''

local function treat(id, fields, message, deliveries, is_over)
  -- Somebody else was faster: a consumer, or the keeper of another broker.
  if redis.call('XACK', stream, group, id) ~= 1 then return end
  treated = treated + 1
  local is_known = #fields <= 2 * Stream.fields_max
  local failed
  if is_known and not is_over then
    failed = Stream.add_again(target, own, now_us, treated, fields, message, deliveries + 1)
  end
  if is_over or not is_known then
    died = died + 1
    local reason = is_known and 'lease expired' or 'too many fields'
    Stream.hold(keys, 'dead', now_ms, message, group, fields, { deliveries, 0, reason }, id)
  elseif failed then
    local tries = { deliveries, 0, failed }
    Stream.hold(keys, 'retry', now_ms + lease_ms, message, group, fields, tries, id)
  end
  -- Other groups may have to read it.
  if not own or which == 'AGAIN' then redis.pcall('XDEL', stream, id) end
end

for i = 1, #found do
  local id, _, idle, times = unpack(found[i])
  looked = i
  local is_idle = idle >= lease_ms
  -- Who reads its own entries anew begins the lease anew: those that kill it each time would never
  -- come to its end.
  local is_suspect = not is_idle and limit > 0 and times > 1 and early < early_max
  if is_idle or is_suspect then
    local entry = redis.call('XRANGE', stream, id, id)[1]
    early = early + (is_suspect and 1 or 0)
    if not entry or not entry[2] then
      -- Somebody deleted it.
      if is_idle then redis.call('XACK', stream, group, id) end
    else
      local fields = entry[2]
      for at = 1, #fields do bytes = bytes + #fields[at] end
      local attempt, message, own_limit = Stream.read(id, fields)
      local most, deliveries = own_limit or limit, attempt - 1 + times
      local is_over = most > 0 and deliveries >= (is_idle and most or most + 1)
      if is_idle or is_over then treat(id, fields, message, deliveries, is_over) end
    end
    if treated >= treated_max or bytes >= bytes_max then
      if i < #found then cursor = id end
      break
    end
  end
end
if died > 0 then Lease.drop_dead(keys, queue, now_ms) end
return { now_us, 'OK', cursor, looked, treated - died, died }
