-- Add the messages of a group of a stream whose retry is due as new entries.
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
-- ARGV[3]  int     count        retries that are looked at, those of other groups included
-- ARGV[4]  int     bytes_max    of messages; one is added however large
-- RETURN   { now_us, 'OK', again, died, next }: how many come again, and how many are dead, since
--          their group is gone or nobody can read them; next: when the first retry is due that is
--          left, ms, or ''. { now_us, 'NOSTREAM' }: the destination is no stream.
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(count * log retries)

local destination, again = KEYS[1], KEYS[2]
local keys = { retry = KEYS[5], dead = KEYS[6], taken = KEYS[7], tries = KEYS[8] }
local group, count, bytes_max = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local refused_ms = 30000 -- until what Redis refused is tried again

local now_us, queue, refused = Begin.read(KEYS[4], ARGV[1], {
  again, 'stream', KEYS[3], 'zset', keys.retry, 'zset', keys.dead, 'zset',
  keys.taken, 'hash', keys.tries, 'hash',
})
if refused then return refused end
refused = Stream.refusal(now_us, queue, destination)
if refused then return refused end
local groups, group_count = Stream.groups(destination)
local target, own
if groups[group] then target, own = Stream.target(destination, again, group, group_count) end

local now_ms = math.floor(now_us / 1000)
local due = redis.call('ZRANGE', keys.retry, '-inf', string.format('%d', now_ms), 'BYSCORE',
  'LIMIT', 0, count)
local added, died, bytes = 0, 0, 0
for i = 1, #due do
  local member = due[i]
  local its = string.sub(member, 9)
  if #member < 8 or not groups[its] then
    redis.call('ZREM', keys.retry, member)
    redis.call('ZADD', keys.dead, now_ms, member)
    local deliveries, base = Lease.tries_of(keys.tries, member)
    Lease.note_tries(keys.tries, member, deliveries, base, 'its group is gone')
    died = died + 1
  elseif its == group then
    local size = Lease.payload_bytes(keys.taken, member)
    if bytes > 0 and bytes + size > bytes_max then break end
    bytes = bytes + size
    local deliveries, base = Lease.tries_of(keys.tries, member)
    local fields = Stream.held(keys.taken, member)
    -- The write that frees memory goes first: then Redis lets the others follow at its limit.
    redis.call('ZREM', keys.retry, member)
    if not fields then
      redis.call('ZADD', keys.dead, now_ms, member)
      Lease.note_tries(keys.tries, member, deliveries, base, 'nobody can read it')
      died = died + 1
    else
      local id, attempt = string.sub(member, 1, 8), deliveries - base + 1
      local failed = Stream.add_again(target, own, now_us, added + 1, fields, id, attempt)
      if failed then
        redis.call('ZADD', keys.retry, now_ms + refused_ms, member)
        Lease.note_tries(keys.tries, member, deliveries, base, failed)
      else
        added = added + 1
        redis.call('HDEL', keys.taken, member)
        redis.call('HDEL', keys.tries, member)
      end
    end
  end
end
if died > 0 then Lease.drop_dead(keys, queue, now_ms) end
return { now_us, 'OK', added, died, Lease.next(keys, { 'retry' }) }
