-- Lease messages that can be had: those that wait for a retry, and payloads of the destination.
--
-- KEYS[1]   string  call         number and ids of this link's last call
-- KEYS[2]   list    destination  bare payloads
-- KEYS[3]   zset    timeout      member -> due, Unix ms; says only whose the keys are
-- KEYS[4]   hash    record       true name, pause
-- KEYS[5]   hash    all          pause of all queues
-- KEYS[6]   zset    leased       id -> until, ms
-- KEYS[7]   zset    retry        id -> when it can be taken again, ms
-- KEYS[8]   zset    dead         id -> died, ms
-- KEYS[9]   hash    taken        id -> payload
-- KEYS[10]  hash    tries        id -> deliveries, base, reason: see _lease.lua
-- KEYS[11]  none    guard        the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number       of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   int     count        messages at most
-- ARGV[5]   int     bytes_max    of payloads; one is taken however large
-- ARGV[6]   int     message_max  bytes of a payload beyond which it is not taken
-- ARGV[7]   int     lease_ms     negative: that of a queue that sets none
-- ARGV[8]   int     limit        deliveries that count, then a message is dead; 0: none; of a queue
--                                that sets none
-- ARGV[9]   bytes   ids          new ids of 8 bytes, `count` of them, one after the other
-- RETURN    { now_us, 'OK', next, until_ms, lapsed, died, id, deliveries, attempt, payload... }
--           next: when something can be had, ms, '' if nothing is known; it is in the past where
--           there is more now. lapsed, died: leases that had run out, and how many of them died.
--           { now_us, 'PAUSED', until }: ms, -1 until resumed.
--           { now_us, 'TOOBIG', bytes, message, message_max } where the first is larger; another
--           one that is ends the reply before it. { now_us, 'LATE' | 'SETTLED' },
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
--           The payloads are not stored for settling: there the reply is
--           { now_us, 'APPLIED', id, deliveries... }. Nothing is written where nothing is found
-- COST      O(count * log leased)

local keys = {
  timeout = KEYS[3], leased = KEYS[6], retry = KEYS[7], dead = KEYS[8], taken = KEYS[9],
  tries = KEYS[10],
}
local destination, record, all = KEYS[2], KEYS[4], KEYS[5]
local count, bytes_max, message_max = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local ids = ARGV[9]
local lapse_max = 200 -- leases that are ended in one call

local kinds = Lease.kinds(keys)
kinds[#kinds + 1], kinds[#kinds + 2] = destination, 'list'
local now_us, queue, refused = Begin.write(record, ARGV[3], kinds)
if refused then return refused end

local of_all = redis.pcall('HGET', all, 'paused_until')
local paused_until = Pause.of(queue.paused_until, of_all, now_us / 1000)
if paused_until ~= '' then return { now_us, 'PAUSED', paused_until } end

local now_ms = math.floor(now_us / 1000)
local now_text = string.format('%d', now_ms)
local lease_ms, limit = Lease.terms(queue, ARGV[7], ARGV[8])
local until_ms = now_ms + 1 + lease_ms
local lapsed, died = Lease.lapse(keys, now_text, limit, lapse_max)
local in_flight_max = Record.setting(queue.settings, 'in_flight_max') or 0
if in_flight_max > 0 then
  count = math.min(count, in_flight_max - redis.call('ZCARD', keys.leased))
  if count <= 0 then
    return { now_us, 'OK', Lease.next(keys, { 'leased' }), until_ms, lapsed, died }
  end
end

-- While payloads wait, messages that are tried again get half of the places at most; of a single
-- place, one call in two.
local ready = redis.call('LLEN', destination)
local again = redis.call('ZRANGE', keys.retry, '-inf', now_text, 'BYSCORE', 'LIMIT', 0, count)
local again_max = count - math.min(ready, math.floor(count / 2))
if count == 1 and ready > 0 then again_max = now_us % 2 end

local reply, stored = { now_us, 'OK', '', until_ms, lapsed, died }, { now_us, 'APPLIED' }
local got, bytes, full, too_big = 0, 0, false, nil
local members, leases, old, gone, huge = {}, {}, {}, {}, {}

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

for i = 1, math.min(#again, again_max) do
  local id = again[i]
  local size = Lease.payload_bytes(keys.taken, id)
  local is_small = size <= message_max
  if is_small and not fits(size) then break end
  local payload = is_small and redis.call('HGET', keys.taken, id)
  if not is_small then
    -- It was taken under other limits. Nobody can have it, and it would be in the way for ever.
    huge[#huge + 1] = id
  elseif payload and #id == 8 then
    local deliveries, base, reason = Lease.tries_of(keys.tries, id)
    old[#old + 1] = { id, deliveries + 1, base, reason }
    hand_out(id, deliveries + 1, deliveries + 1 - base, payload)
  else
    -- Somebody deleted the payload by hand, or put an id there that no receipt can name.
    gone[#gone + 1] = id
  end
end

-- Payloads are read in chunks, of one at first: the limit in bytes must be noticed before much is
-- read, and the next ones may be far larger than those before.
local met, chunk = 0, 1
while not full and got < count and met < ready do
  local page = redis.call('LRANGE', destination, met, met + math.min(chunk, count - got) - 1)
  for i = 1, #page do
    local payload = page[i]
    if not fits(#payload) then break end
    local id = string.sub(ids, 8 * met + 1, 8 * met + 8)
    met = met + 1
    members[#members + 1], members[#members + 2] = id, payload
    hand_out(id, 1, 1, payload)
  end
  chunk = Page.next_chunk(chunk, met, count, bytes, bytes_max, ready)
end
if too_big and #huge == 0 then return too_big end

-- What frees memory goes first: then Redis lets the others follow at its limit.
if met > 0 then redis.call('LTRIM', destination, met, -1) end
for i = 1, #gone do
  redis.call('ZREM', keys.retry, gone[i])
  redis.call('HDEL', keys.tries, gone[i])
end
for i = 1, #huge do
  local deliveries, base = Lease.tries_of(keys.tries, huge[i])
  redis.call('ZREM', keys.retry, huge[i])
  redis.call('ZADD', keys.dead, now_text, huge[i])
  Lease.note_tries(keys.tries, huge[i], deliveries, base, 'too large for a reply')
end
reply[6] = died + #huge
for i = 1, #old do
  redis.call('ZREM', keys.retry, old[i][1])
  Lease.note_tries(keys.tries, unpack(old[i]))
end
for from = 1, #members, 1000 do
  redis.call('HSET', keys.taken, unpack(members, from, math.min(from + 999, #members)))
end
for from = 1, #leases, 1000 do
  redis.call('ZADD', keys.leased, unpack(leases, from, math.min(from + 999, #leases)))
end
if got > 0 then
  if queue.name ~= ARGV[3] then redis.call('HSET', record, 'name', ARGV[3]) end
  Call.applied(stored)
end
local more = full or met < ready or #again > #old + #gone + #huge
if more then reply[3] = now_text else reply[3] = Lease.next(keys) end
return reply
