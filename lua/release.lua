-- Give messages that wait for a retry back to the destination, those first that can be taken
-- first; and those whose lease has run out.
--
-- KEYS[1]   string  call         number and reply of this link's last call
-- KEYS[2]   list    destination  bare payloads
-- KEYS[3]   zset    timeout      member -> due, Unix ms; says only whose the keys are
-- KEYS[4]   hash    record       true name of the queue
-- KEYS[5]   zset    leased       id -> until, ms
-- KEYS[6]   zset    retry        id -> when it can be taken again, ms
-- KEYS[7]   zset    dead         id -> died, ms
-- KEYS[8]   hash    taken        id -> payload
-- KEYS[9]   hash    tries        id -> deliveries, base, reason: see _lease.lua
-- KEYS[10]  hash    held         names of messages that are not done: see _held.lua
-- KEYS[11]  none    guard        the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number       of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   int     count        messages at most
-- ARGV[5]   int     bytes_max    of payloads; one is given back however large
-- ARGV[6]   int     limit        deliveries that count, then a message is dead; 0: none; of a queue
--                                that sets none
-- RETURN    { now_us, 'OK', released, waiting, lapsed, died }: how many, and how many wait still.
--           One whose payload somebody deleted is dropped, and not counted. lapsed, died: leases
--           that had run out, and how many of them died; too many dead ones stay until another
--           script drops them.
--           { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--           { now_us, 'BADQUEUE', true name },
--           { now_us, 'STREAM' }: its retries come by themselves.
--           { now_us, 'TAKERS' }: takers alone can have them
-- COST      O(log waiting) for each message

local keys = {
  timeout = KEYS[3], leased = KEYS[5], retry = KEYS[6], dead = KEYS[7], taken = KEYS[8],
  tries = KEYS[9], held = KEYS[10],
}
local destination, count, bytes_max = KEYS[2], tonumber(ARGV[4]), tonumber(ARGV[5])

local kinds = Lease.kinds(keys)
kinds[#kinds + 1], kinds[#kinds + 2] = destination, 'list'
local now_us, queue, refused = Lease.begin(KEYS[4], ARGV[3], kinds)
if refused then return refused end
-- Its messages keep their ids: back in the list they would get the receipts of before.
if Record.destination(queue.settings) == 'take' then return Call.applied({ now_us, 'TAKERS' }) end

local now_text = string.format('%d', math.floor(now_us / 1000))
local _, limit = Lease.terms(queue, nil, ARGV[6])
local lapsed, died = Lease.lapse(keys, now_text, limit, 200)
local waiting = redis.call('ZRANGE', keys.retry, 0, count - 1)
local ids, payloads, bytes = {}, {}, 0
for i = 1, #waiting do
  bytes = bytes + Lease.payload_bytes(keys.taken, waiting[i])
  if bytes > bytes_max and #payloads > 0 then break end
  ids[i] = waiting[i]
  local payload = redis.call('HGET', keys.taken, ids[i])
  if payload then payloads[#payloads + 1] = Envelope.content(payload) end
end
-- Writes that free memory go first: then Redis lets the other follow at its limit.
for from = 1, #ids, 1000 do
  local to = math.min(from + 999, #ids)
  redis.call('ZREM', keys.retry, unpack(ids, from, to))
  redis.call('HDEL', keys.taken, unpack(ids, from, to))
  redis.call('HDEL', keys.tries, unpack(ids, from, to))
end
for from = 1, #payloads, 1000 do
  redis.call('RPUSH', destination, unpack(payloads, from, math.min(from + 999, #payloads)))
end
if #ids > 0 then Lease.prune(keys, queue, ARGV[3], now_us) end
local left = redis.call('ZCARD', keys.retry) + redis.call('ZCOUNT', keys.leased, '-inf', now_text)
return Call.applied({ now_us, 'OK', #payloads, left, lapsed, died })
