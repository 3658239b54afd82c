-- Lease messages that can be had: those that wait for a retry, those with a priority, and payloads
-- of the destination.
--
-- KEYS[1]   string  call         number and ids of this link's last call
-- KEYS[2]   list    destination  payloads, bare or in an envelope; a stream is refused
-- KEYS[3]   zset    timeout      member -> due, Unix ms; says only whose the keys are
-- KEYS[4]   hash    record       true name, pause
-- KEYS[5]   hash    all          pause of all queues
-- KEYS[6]   zset    leased       id -> until, ms
-- KEYS[7]   zset    retry        id -> when it can be taken again, ms
-- KEYS[8]   zset    dead         id -> died, ms
-- KEYS[9]   hash    taken        id -> payload
-- KEYS[10]  hash    tries        id -> deliveries, base, reason: see _lease.lua
-- KEYS[11]  zset    first        due messages with a priority: see _deliver.lua
-- KEYS[12]  hash    held         names that are held until their messages are done: see _held.lua
-- KEYS[13]  none    guard        the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number       of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   int     count        messages at most
-- ARGV[5]   int     bytes_max    of payloads; one is taken however large
-- ARGV[6]   int     message_max  bytes of a payload beyond which it is not taken
-- ARGV[7]   int     lease_ms     negative: that of a queue that sets none
-- ARGV[8]   int     limit        deliveries that count, then a message is dead; 0: none; of a queue
--                                that sets none
-- ARGV[9]   bytes   ids          new ids of 8 bytes, `count` of them, one after the other: for
--                                messages that have none, or one that is another's
-- RETURN    { now_us, 'OK', next, until_ms, lapsed, died, id, deliveries, attempt, payload... }
--           next: when something can be had, ms, '' if nothing is known; it is in the past where
--           there is more now. lapsed: leases that had run out; died: messages that did. payload:
--           in its envelope, where it has one. At the end how many have expired, if any; behind
--           them how many dead ones were dropped that the settings keep no longer, if any.
--           { now_us, 'PAUSED', until }: ms, -1 until resumed.
--           { now_us, 'TOOBIG', bytes, message, message_max } where the first is larger; another
--           one that is ends the reply before it. { now_us, 'LATE' | 'SETTLED' },
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name },
--           { now_us, 'STREAM' }: its consumers ask Redis
--           The payloads are not stored for settling: there the reply is
--           { now_us, 'APPLIED', id, deliveries... }. Nothing is written where nothing is found
-- COST      O(count * log leased)

local keys = {
  timeout = KEYS[3], leased = KEYS[6], retry = KEYS[7], dead = KEYS[8], taken = KEYS[9],
  tries = KEYS[10], held = KEYS[12],
}
local first = KEYS[11]
local destination, record, all = KEYS[2], KEYS[4], KEYS[5]
local count, bytes_max, message_max = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local ids = ARGV[9]
local lapse_max = 200 -- leases that are ended in one call

local kinds = Lease.kinds(keys)
kinds[#kinds + 1], kinds[#kinds + 2] = destination, 'list'
local now_us, queue, refused = Lease.begin(record, ARGV[3], kinds)
if refused then return refused end

local of_all = redis.pcall('HGET', all, 'paused_until')
local paused_until = Pause.of(queue.paused_until, of_all, now_us / 1000)
if paused_until ~= '' then return { now_us, 'PAUSED', paused_until } end

-- Those with a priority, which only a queue for takers has.
local prior = 0
local alone = queue.settings and Record.destination(queue.settings) == 'take'
if alone then
  prior = redis.pcall('ZCARD', first)
  if type(prior) ~= 'number' then return { now_us, 'WRONGTYPE', first } end
end

local now_ms = math.floor(now_us / 1000)
local now_text = string.format('%d', now_ms)
local lease_ms, limit = Lease.terms(queue, ARGV[7], ARGV[8])
local until_ms = now_ms + 1 + lease_ms
local lapsed, died = Lease.lapse(keys, now_text, limit, lapse_max)
local too_old = queue.settings and Lease.drop_dead(keys, queue, now_ms) or 0
local in_flight_max = Record.setting(queue.settings, 'in_flight_max') or 0
if in_flight_max > 0 then
  count = math.min(count, in_flight_max - redis.call('ZCARD', keys.leased))
  if count <= 0 then
    local full_reply = { now_us, 'OK', Lease.next(keys, { 'leased' }), until_ms, lapsed, died }
    if too_old > 0 then full_reply[7], full_reply[8] = 0, too_old end
    return full_reply
  end
end

-- While others wait, messages that are tried again get half of the places at most; of a single
-- place, one call in two.
local listed = redis.call('LLEN', destination)
local ready = listed + prior
local again = redis.call('ZRANGE', keys.retry, '-inf', now_text, 'BYSCORE', 'LIMIT', 0, count)
local again_max = count - math.min(ready, math.floor(count / 2))
if count == 1 and ready > 0 then again_max = now_us % 2 end

local reply, stored = { now_us, 'OK', '', until_ms, lapsed, died }, { now_us, 'APPLIED' }
local got, bytes, full, too_big = 0, 0, false, nil
local members, leases, old, gone, corpses = {}, {}, {}, {}, {}
local byte = string.byte
-- Messages that have expired, which are passed over; how many of the new ids are used.
local expired, expired_bytes, spare = 0, 0, 0

-- False if the next one has to wait for a later call.
local function fits(size)
  if size > message_max and got == 0 then
    too_big = { now_us, 'TOOBIG', size, 'at the head of the list', message_max }
  end
  if size > message_max or (bytes + size > bytes_max and got > 0) then full = true end
  return not full
end

local function hand_out(id, deliveries, attempt, payload)
  local at = #reply
  reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = id, deliveries, attempt, payload
  at = #stored
  stored[at + 1], stored[at + 2] = id, deliveries
  at = #leases
  leases[at + 1], leases[at + 2] = until_ms, id
  got, bytes = got + 1, bytes + #payload
end

-- What is needed of payloads in an envelope, made when the first is met: most have none.
local special
local function of_envelopes()
  late()
  local dies = Record.setting(queue.settings, 'expired') == 1
  local now, used, expired_max = now_us / 1000, {}, 1000
  special = { dropped = {}, limited = {} }

  -- Counts one that has expired: so many in one call, and as many bytes of them as of others. What
  -- is kept of it where it dies of that.
  local function pass_over(size, payload)
    expired, expired_bytes = expired + 1, expired_bytes + size
    if expired >= expired_max or expired_bytes >= bytes_max then full = true end
    return dies and Deliver.dead(payload)
  end

  -- Whether no other message has this id: the same one may come twice.
  local function is_free(id)
    if not id or used[id] or Lease.payload_bytes(keys.taken, id) > 0 then return false end
    used[id] = true
    return not redis.call('HGET', keys.taken, id)
  end

  -- Whether a message that is tried again has expired.
  function special.again(id, payload)
    local _, opened, over = Deliver.opened(payload, now)
    if not over then return false end
    local corpse = pass_over(#payload, opened)
    if corpse then
      corpses[#corpses + 1] = { id, 'expired', corpse }
    else
      special.dropped[#special.dropped + 1] = id
    end
    return true
  end

  -- A message that nobody has had: its id, if it has one that is no other's; itself, with all that
  -- is known now; what is kept of it if it dies, false if it is dropped, nil if it goes on; its own
  -- limit.
  function special.first(stored)
    local id, payload, over, own = Deliver.opened(stored, now)
    if not is_free(id) then id = nil end
    local corpse
    if over then
      corpse = pass_over(#stored, payload)
      if not corpse and id then special.dropped[#special.dropped + 1] = id end
    end
    return id, payload, corpse, own
  end
end

local tried = 0
for i = 1, math.min(#again, again_max) do
  local id = again[i]
  if full then break end
  local size = Lease.payload_bytes(keys.taken, id)
  local is_small = size <= message_max
  if is_small and not fits(size) then break end
  local payload = is_small and redis.call('HGET', keys.taken, id)
  if payload and not special and byte(payload, 1) == 0 then of_envelopes() end
  if not is_small then
    -- It was taken under other limits. Nobody can have it, and it would be in the way for ever.
    corpses[#corpses + 1] = { id, 'too large for a reply' }
  elseif not payload or #id ~= 8 then
    -- Somebody deleted the payload by hand, or put an id there that no receipt can name.
    gone[#gone + 1] = id
  elseif not special or not special.again(id, payload) then
    local deliveries, base, reason, own = Lease.tries_of(keys.tries, id)
    old[#old + 1] = { id, deliveries + 1, base, reason, own }
    hand_out(id, deliveries + 1, deliveries + 1 - base, payload)
  end
  tried = i
end

-- A message that nobody has had; false if it has to wait for a later call.
local function meet(payload)
  local id, corpse, own = nil, nil, nil
  if byte(payload, 1) == 0 then
    if alone then
      if not special then of_envelopes() end
      id, payload, corpse, own = special.first(payload)
    else
      -- What a list holds is bare, whatever it looks like.
      late()
      payload = Envelope.guarded(payload)
    end
  end
  if corpse == false then return true end
  if not corpse and not fits(#payload) then return false end
  if not id then
    if 8 * spare >= #ids then
      full = true
      return false
    end
    id, spare = string.sub(ids, 8 * spare + 1, 8 * spare + 8), spare + 1
  end
  local at = #members
  members[at + 1], members[at + 2] = id, corpse or payload
  if corpse then
    corpses[#corpses + 1] = { id, 'expired', nil, own }
    return true
  end
  if own then special.limited[#special.limited + 1] = { id, own } end
  hand_out(id, 1, 1, payload)
  return true
end

-- Payloads are read in chunks, of one at first: the limit in bytes must be noticed before much is
-- read, and the next ones may be far larger than those before. How many were met.
local function walk(waiting, command, key, at)
  local met, chunk = 0, 1
  while not full and got < count and met < waiting do
    local page = redis.call(command, key, met, met + math.min(chunk, count - got) - 1)
    for i = 1, #page do
      if full or not meet(at == 1 and page[i] or string.sub(page[i], at)) then break end
      met = met + 1
    end
    chunk = Page.next_chunk(chunk, math.max(met, 1), met + count - got, bytes + expired_bytes,
      bytes_max, waiting)
  end
  return met
end
local met_prior = prior > 0 and walk(prior, 'ZRANGE', first, 9) or 0
local met = walk(listed, 'LRANGE', destination, 1)
if too_big and #corpses == 0 and expired == 0 then return too_big end

-- What frees memory goes first: then Redis lets the others follow at its limit.
if met_prior > 0 then redis.call('ZREMRANGEBYRANK', first, 0, met_prior - 1) end
if met > 0 then redis.call('LTRIM', destination, met, -1) end
for from = 1, #members, 1000 do
  redis.call('HSET', keys.taken, unpack(members, from, math.min(from + 999, #members)))
end
for i = 1, #gone do
  redis.call('ZREM', keys.retry, gone[i])
  redis.call('HDEL', keys.tries, gone[i])
end
for i = 1, #corpses do
  local id, reason, payload, own = unpack(corpses[i], 1, 4)
  local deliveries, base, _, noted = Lease.tries_of(keys.tries, id)
  -- One that nobody had has made no attempt.
  if redis.call('ZREM', keys.retry, id) == 0 then base = deliveries end
  redis.call('ZADD', keys.dead, now_text, id)
  if payload then redis.call('HSET', keys.taken, id, payload) end
  Lease.note_tries(keys.tries, id, deliveries, base, reason, noted or own)
  Lease.free_names(keys.held, { id })
end
reply[6] = died + #corpses
if special then
  for i = 1, #special.dropped do
    local id = special.dropped[i]
    redis.call('ZREM', keys.retry, id)
    redis.call('HDEL', keys.taken, id)
    redis.call('HDEL', keys.tries, id)
    Lease.free_names(keys.held, { id })
  end
  for i = 1, #special.limited do
    local id, own = unpack(special.limited[i])
    Lease.note_tries(keys.tries, id, 1, 0, '', own)
  end
end
for i = 1, #old do
  redis.call('ZREM', keys.retry, old[i][1])
  Lease.note_tries(keys.tries, unpack(old[i], 1, 5))
end
for from = 1, #leases, 1000 do
  redis.call('ZADD', keys.leased, unpack(leases, from, math.min(from + 999, #leases)))
end
if got > 0 then
  if queue.name ~= ARGV[3] then redis.call('HSET', record, 'name', ARGV[3]) end
  Call.applied(stored)
end
if full or met < listed or met_prior < prior or #again > tried then
  reply[3] = now_text
else
  reply[3] = Lease.next(keys)
end
if expired > 0 or too_old > 0 then reply[#reply + 1] = expired end
if too_old > 0 then reply[#reply + 1] = too_old end
return reply
