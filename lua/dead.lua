-- Bring dead messages back, or forget them.
--
-- KEYS[1]   string  call     number and reply of this link's last call
-- KEYS[2]   zset    timeout  member -> due, Unix ms; says only whose the keys are
-- KEYS[3]   hash    record   true name of the queue
-- KEYS[4]   zset    leased   id -> until, ms
-- KEYS[5]   zset    retry    id -> when it can be taken again, ms
-- KEYS[6]   zset    dead     id -> died, ms
-- KEYS[7]   hash    taken    id -> payload
-- KEYS[8]   hash    tries    id -> deliveries, base, reason: see _lease.lua
-- KEYS[9]   none    guard    the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number   of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   int     delay    ms until they can be taken again; '': they are dropped
-- ARGV[5]   int     first    how many from the head on, 0 where ids follow
-- ARGV[6..] bytes   ids
-- RETURN    { now_us, 'OK', changed, next, dropped }: how many; next: when they can be taken, ms,
--           or ''. dropped, if it is not 0: others, which the settings keep no longer. A message
--           that is brought back has all its attempts again.
--           { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--           { now_us, 'BADQUEUE', true name }
-- COST      O(log dead) for each id

local keys = {
  timeout = KEYS[2], leased = KEYS[4], retry = KEYS[5], dead = KEYS[6], taken = KEYS[7],
  tries = KEYS[8],
}
local delay, first = tonumber(ARGV[4]), tonumber(ARGV[5])

local now_us, queue, refused = Begin.write(KEYS[3], ARGV[3], Lease.kinds(keys))
if refused then return refused end

local ids = first > 0 and redis.call('ZRANGE', keys.dead, 0, first - 1) or {}
for i = 6, #ARGV do ids[#ids + 1] = ARGV[i] end
local from = delay and string.format('%.0f', math.ceil(now_us / 1000) + delay) or ''
local changed = 0
for i = 1, #ids do
  local id = ids[i]
  if redis.call('ZREM', keys.dead, id) == 1 then
    changed = changed + 1
    if delay then
      local deliveries, _, reason, own = Lease.tries_of(keys.tries, id)
      redis.call('ZADD', keys.retry, from, id)
      Lease.note_tries(keys.tries, id, deliveries, deliveries, reason, own)
    else
      redis.call('HDEL', keys.taken, id)
      redis.call('HDEL', keys.tries, id)
    end
  end
end
if delay and changed > 0 then Wake.retry(KEYS[3], keys.retry, from) end
if not delay and changed > 0 then Lease.prune(keys, queue, ARGV[3], now_us) end
local dropped = queue.settings and Lease.drop_dead(keys, queue, math.ceil(now_us / 1000)) or 0
local next_ms = changed > 0 and from or ''
return Call.applied({ now_us, 'OK', changed, next_ms, dropped > 0 and dropped or nil })
