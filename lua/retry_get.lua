-- Look up one message that waits for a retry.
--
-- KEYS[1]  zset  timeout  member -> due, Unix ms; says only whose the keys are
-- KEYS[2]  hash  record   true name of the queue
-- KEYS[3]  zset  leased   id -> until, ms
-- KEYS[4]  zset  retry    id -> when it can be taken again, ms
-- KEYS[5]  zset  dead     id -> died, ms
-- KEYS[6]  hash  taken    id -> payload
-- KEYS[7]  hash  tries    id -> deliveries, base, reason: see _lease.lua
-- KEYS[8]  none  guard    the channel's name, never a key: see _begin.lua
-- ARGV[1]  text  queue
-- ARGV[2]  bytes  id
-- ARGV[3]  int   message_max  bytes of a payload beyond which it is not handed out
-- RETURN   { now_us, 'OK', from, deliveries, base, reason, payload }: from: when it can be taken
--          again, ms. { now_us, 'OK', '' } if it does not wait.
--          { now_us, 'TOOBIG', bytes, message id, message_max } if it is larger than that;
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(log waiting)

local keys = {
  timeout = KEYS[1], leased = KEYS[3], retry = KEYS[4], dead = KEYS[5], taken = KEYS[6],
  tries = KEYS[7],
}
local id, message_max = ARGV[2], tonumber(ARGV[3])

local now_us, _, refused = Begin.read(KEYS[2], ARGV[1], Lease.kinds(keys))
if refused then return refused end

local from = redis.call('ZSCORE', keys.retry, id)
if not from then return { now_us, 'OK', '' } end
local size = Lease.payload_bytes(keys.taken, id)
if size > message_max then
  return { now_us, 'TOOBIG', size, '0-' .. Member.hex(id), message_max }
end
local payload = redis.call('HGET', keys.taken, id)
-- Somebody deleted it by hand: nobody can have it.
if not payload then return { now_us, 'OK', '' } end
local deliveries, base, reason = Lease.tries_of(keys.tries, id)
return { now_us, 'OK', from, deliveries, base, reason, payload }
