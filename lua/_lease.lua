-- Leases: messages that a consumer has taken and not settled yet, and what became of them.
-- Keeps: an id is in one of leased, retry and dead; taken has exactly the ids of these three; tries
-- has some of them.
--
--   leased  zset  id -> until, ms
--   retry   zset  id -> when it can be taken again, ms
--   dead    zset  id -> died, ms
--   taken   hash  id -> payload
--   tries   hash  id -> '<deliveries> <base> <reason>'; no field: one delivery, base 0
--
-- Deliveries only grow, so the receipt of an earlier one never fits again. The attempts that count
-- are deliveries - base.

Lease.reason_max = 512 -- bytes

-- deliveries, base, reason; of a field that is not there, or damaged.
local function parsed(text)
  local deliveries, base, reason = string.match(text or '', '^(%d+) (%d+) ?(.*)$')
  deliveries = math.max(1, math.min(tonumber(deliveries) or 1, 1e12))
  -- No attempt is less than none: takers would get a number that no reply may have.
  return deliveries, math.min(tonumber(base) or 0, deliveries), reason or ''
end

function Lease.tries_of(tries, id)
  return parsed(redis.call('HGET', tries, id))
end

function Lease.note_tries(tries, id, deliveries, base, reason)
  -- Not by %s, which ends at a zero byte.
  reason = string.sub(reason, 1, Lease.reason_max)
  redis.call('HSET', tries, id, string.format('%d %d ', deliveries, base) .. reason)
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

-- Whether a receipt with this number fits what is noted of its message, as HGET or HMGET read it.
function Lease.fits(noted, number)
  return parsed(noted) == tonumber(number)
end

-- Where the message of a receipt is, if it was not handed out again since: 'leased', 'retry' or
-- 'dead'. Then deliveries, base and reason.
function Lease.held(keys, id, number)
  local deliveries, base, reason = Lease.tries_of(keys.tries, id)
  if deliveries ~= tonumber(number) then return end
  for _, place in ipairs({ 'leased', 'retry', 'dead' }) do
    if redis.call('ZSCORE', keys[place], id) then return place, deliveries, base, reason end
  end
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
    local deliveries, base, reason = Lease.tries_of(keys.tries, id)
    if limit > 0 and deliveries - base >= limit then
      died = died + 1
      redis.call('ZADD', keys.dead, now_ms, id)
      if reason == '' then reason = 'lease expired' end
      Lease.note_tries(keys.tries, id, deliveries, base, reason)
    else
      redis.call('ZADD', keys.retry, until_ms, id)
    end
  end
  return #ended / 2, died
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
