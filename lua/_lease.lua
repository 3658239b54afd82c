-- Leases: messages that a consumer has taken and not settled yet, and what became of them.
-- Keeps: an id is in one of leased, retry and dead; taken has exactly the ids of these three; tries
-- has some of them.
--
--   leased  zset  id -> until, ms
--   retry   zset  id -> when it can be taken again, ms
--   dead    zset  id -> died, ms
--   taken   hash  id -> payload
--   tries   hash  id -> '<deliveries> <base> <reason>'; no field: one delivery, base 0. A message
--                 with a limit of its own has '<base>/<limit>'
--
-- Deliveries only grow, so the receipt of an earlier one never fits again. The attempts that count
-- are deliveries - base.

Lease.reason_max = 512 -- bytes

-- deliveries, base, reason, and the message's own limit or nil; of a field that is not there, or
-- damaged.
local function parsed(text)
  local deliveries, base, limit, reason = string.match(text or '', '^(%d+) (%d+)/?(%d*) ?(.*)$')
  deliveries = math.max(1, math.min(tonumber(deliveries) or 1, 1e12))
  -- No attempt is less than none: takers would get a number that no reply may have.
  return deliveries, math.min(tonumber(base) or 0, deliveries), reason or '', tonumber(limit)
end

function Lease.tries_of(tries, id)
  return parsed(redis.call('HGET', tries, id))
end

function Lease.note_tries(tries, id, deliveries, base, reason, limit)
  -- Not by %s, which ends at a zero byte.
  reason = string.sub(reason, 1, Lease.reason_max)
  redis.call('HSET', tries, id, string.format('%d %d', deliveries, base)
    .. (limit and string.format('/%d ', limit) or ' ') .. reason)
end

-- The lease and the limit of a queue: its own, or else these. A lease that is not negative was
-- asked for, and counts.
function Lease.terms(queue, lease_ms, limit)
  lease_ms = tonumber(lease_ms)
  if lease_ms and lease_ms < 0 then
    lease_ms = Record.setting(queue.settings, 'lease_ms') or -lease_ms
  end
  return lease_ms, Record.setting(queue.settings, 'limit') or tonumber(limit)
end

-- The waits of a queue, in this order: its own, or else these.
function Lease.backoff(queue, min_ms, max_ms, jitter)
  return {
    min_ms = Record.setting(queue.settings, 'backoff_min_ms') or tonumber(min_ms),
    max_ms = Record.setting(queue.settings, 'backoff_max_ms') or tonumber(max_ms),
    jitter = (Record.setting(queue.settings, 'jitter') or tonumber(jitter)) / 100,
  }
end

-- How long a message waits after an attempt, ms; `delay`: what was asked for, or nil. Chance is the
-- broker's: in Redis's Lua each call has the same random numbers.
function Lease.wait_ms(backoff, delay, mode, attempt, deliveries, chance)
  local wait = delay
  if not wait and mode == 'SILENT' then wait = 0 end
  if not wait then
    -- An attempt that does not count any more has the wait of the first.
    wait = backoff.min_ms * 2 ^ math.max(0, math.min(attempt - 1, 50))
    wait = math.min(backoff.max_ms, wait)
    wait = math.floor(wait * (1 - backoff.jitter * chance / 999))
  end
  -- What comes back at once again and again must not become a loop.
  return deliveries > 2 and math.max(wait, 100) or wait
end

-- How a numbered call about the messages of takers begins: as Begin.write, and not where consumers
-- ask Redis itself.
function Lease.begin(record, name, kinds)
  local now_us, queue, refused = Begin.write(record, name, kinds)
  if not refused and Record.is_stream(queue.settings) then
    refused = Call.applied({ now_us, 'STREAM' })
  end
  return now_us, queue, refused
end

function Lease.kinds(keys)
  return {
    keys.timeout, 'zset', keys.leased, 'zset', keys.retry, 'zset', keys.dead, 'zset',
    keys.taken, 'hash', keys.tries, 'hash',
  }
end

-- The bytes of a payload, 0 if there is none. A user whose rights are those that earlier brokers
-- asked for may only read it.
function Lease.payload_bytes(taken, id)
  local bytes = redis.pcall('HSTRLEN', taken, id)
  if type(bytes) == 'number' then return bytes end
  return #(redis.call('HGET', taken, id) or '')
end

-- Whether there is a message of this id, without reading a large one.
function Lease.is_taken(taken, id)
  return Lease.payload_bytes(taken, id) > 0 or redis.call('HGET', taken, id) ~= false
end

-- Whether a receipt with this number fits what is noted of its message, as HGET or HMGET read it.
function Lease.fits(noted, number)
  return parsed(noted) == tonumber(number)
end

-- Where the message of a receipt is, if it was not handed out again since: 'leased', 'retry' or
-- 'dead'. Then deliveries, base, reason, and its own limit or nil.
function Lease.held(keys, id, number)
  local deliveries, base, reason, limit = Lease.tries_of(keys.tries, id)
  if deliveries ~= tonumber(number) then return end
  for _, place in ipairs({ 'leased', 'retry', 'dead' }) do
    if redis.call('ZSCORE', keys[place], id) then return place, deliveries, base, reason, limit end
  end
end

-- Frees the names of messages that are settled or dead.
function Lease.free_names(held, ids)
  if redis.call('EXISTS', held) == 1 then Held.free(held, ids) end
end

-- Ends up to `most` leases that ran out: the messages can be taken again from then on, or are dead
-- where no attempt is left. The lease was the wait. Returns how many ended, and how many died.
function Lease.lapse(keys, now_ms, limit, most)
  local ended = redis.call('ZRANGE', keys.leased, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, most,
    'WITHSCORES')
  local died = 0
  for i = 1, #ended, 2 do
    local id, until_ms = ended[i], ended[i + 1]
    -- A write that frees memory goes first: then Redis lets the others follow at its limit.
    redis.call('ZREM', keys.leased, id)
    local deliveries, base, reason, own = Lease.tries_of(keys.tries, id)
    local most_of_it = own or limit
    if most_of_it > 0 and deliveries - base >= most_of_it then
      died = died + 1
      redis.call('ZADD', keys.dead, now_ms, id)
      if reason == '' then reason = 'lease expired' end
      Lease.note_tries(keys.tries, id, deliveries, base, reason, own)
      Lease.free_names(keys.held, { id })
    else
      redis.call('ZADD', keys.retry, until_ms, id)
    end
  end
  return #ended / 2, died
end

-- Drops dead messages, the oldest first, where the settings of the queue say how many are kept and
-- for how long; how many. What is left of very many goes in the next calls.
function Lease.drop_dead(keys, queue, now_ms)
  local keep_ms = Record.setting(queue.settings, 'dead_keep_ms') or 0
  local max = Record.setting(queue.settings, 'dead_max') or 0
  local died_by = string.format('%.0f', now_ms - keep_ms)
  local old = keep_ms > 0 and redis.call('ZCOUNT', keys.dead, '-inf', died_by) or 0
  local beyond = max > 0 and redis.call('ZCARD', keys.dead) - max or 0
  local count = math.min(1000, math.max(old, beyond))
  if count <= 0 then return 0 end
  local ids = redis.call('ZRANGE', keys.dead, 0, count - 1)
  redis.call('ZREM', keys.dead, unpack(ids))
  redis.call('HDEL', keys.taken, unpack(ids))
  redis.call('HDEL', keys.tries, unpack(ids))
  return count
end

-- When something can be taken next without a delivery: the heads of retry and leased, '' for none;
-- or those of some places.
function Lease.next(keys, places)
  local least
  for _, place in ipairs(places or { 'retry', 'leased' }) do
    local head = tonumber(redis.call('ZRANGE', keys[place], 0, 0, 'WITHSCORES')[2])
    -- Others may have written what is no time.
    if head and head < 1e15 and (not least or head < least) then least = head end
  end
  return least and string.format('%.0f', least) or ''
end

-- After messages were forgotten: the record goes with the last one, since the scheduler prunes only
-- queues that have something pending.
function Lease.prune(keys, queue, name, now_us)
  if redis.call('EXISTS', keys.taken, keys.timeout) == 0 then Record.prune(queue, name, now_us) end
end
