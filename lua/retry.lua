-- Say when messages that wait for a retry can be taken again, or forget them.
--
-- KEYS[1]   string  call     number and reply of this link's last call
-- KEYS[2]   zset    timeout  member -> due, Unix ms; says only whose the keys are
-- KEYS[3]   hash    record   true name of the queue
-- KEYS[4]   zset    leased   id -> until, ms
-- KEYS[5]   zset    retry    id -> when it can be taken again, ms
-- KEYS[6]   zset    dead     id -> died, ms
-- KEYS[7]   hash    taken    id -> payload
-- KEYS[8]   hash    tries    id -> deliveries, base, reason: see _lease.lua
-- KEYS[9]   hash    held     names of messages that are not done: see _held.lua
-- KEYS[10]  none    guard    the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number   of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   int     delay    > 0: ms from now; < 0: the time negated; 0: now, or when it was to be,
--                            if that is before; '': they are forgotten
-- ARGV[5..] bytes   ids
-- RETURN    { now_us, 'OK', changed 0 | 1... }: of each id; 0: it does not wait.
--           { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--           { now_us, 'BADQUEUE', true name }
-- COST      O(log waiting) for each id

local keys = {
  timeout = KEYS[2], leased = KEYS[4], retry = KEYS[5], dead = KEYS[6], taken = KEYS[7],
  tries = KEYS[8], held = KEYS[9],
}
local delay = tonumber(ARGV[4])

local now_us, queue, refused = Begin.write(KEYS[3], ARGV[3], Lease.kinds(keys))
if refused then return refused end

local now_ms = math.ceil(now_us / 1000)
local from = delay and (delay < 0 and math.max(-delay, now_ms) or now_ms + delay)
-- It can be had in this millisecond.
if delay == 0 then from = math.floor(now_us / 1000) end
local reply, changed = { now_us, 'OK' }, false
for i = 5, #ARGV do
  local id = ARGV[i]
  local before = redis.call('ZSCORE', keys.retry, id)
  reply[#reply + 1] = before and 1 or 0
  if before then
    changed = true
    -- A write that frees memory goes first: then Redis lets the other follow at its limit.
    redis.call('ZREM', keys.retry, id)
    if delay then
      local to = delay == 0 and math.min(from, tonumber(before)) or from
      redis.call('ZADD', keys.retry, string.format('%.0f', to), id)
    else
      redis.call('HDEL', keys.taken, id)
      redis.call('HDEL', keys.tries, id)
      Lease.free_names(keys.held, { id })
    end
  end
end
if changed and not delay then Lease.prune(keys, queue, ARGV[3], now_us) end
return Call.applied(reply)
