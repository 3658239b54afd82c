-- Lease messages for longer, from now on, for one client or several.
--
-- KEYS[1]   string  call      number and reply of this link's last call
-- KEYS[2]   zset    timeout   member -> due, Unix ms; says only whose the keys are
-- KEYS[3]   hash    record    true name of the queue
-- KEYS[4]   zset    leased    id -> until, ms
-- KEYS[5]   zset    retry     id -> when it can be taken again, ms
-- KEYS[6]   zset    dead      id -> died, ms
-- KEYS[7]   hash    taken     id -> payload
-- KEYS[8]   hash    tries     id -> deliveries, base, reason: see _lease.lua
-- KEYS[9]   none    guard     the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number    of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   int     lease_ms  from now on; negative: that of a queue that sets none
-- ARGV[5..] bytes   receipts  id, delivery number of each; behind a number '' those of the next
--                             client
-- RETURN    { now_us, 'OK', extended..., until_ms }: how many of each client; of a lease that has
--           run out too, as long as no take came by. What was given back stays so.
--           { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--           { now_us, 'BADQUEUE', true name },
--           { now_us, 'STREAM' }: its consumers ask Redis
-- COST      O(log leased) for each receipt

local keys = {
  timeout = KEYS[2], leased = KEYS[4], retry = KEYS[5], dead = KEYS[6], taken = KEYS[7],
  tries = KEYS[8],
}
local now_us, queue, refused = Lease.begin(KEYS[3], ARGV[3], Lease.kinds(keys))
if refused then return refused end

local until_ms = math.ceil(now_us / 1000) + Lease.terms(queue, ARGV[4])
local reply, extended, seen = { now_us, 'OK' }, 0, {}
for i = 5, #ARGV, 2 do
  local id, number = ARGV[i], ARGV[i + 1]
  if number == '' then
    reply[#reply + 1] = extended
    extended, seen = 0, {}
  elseif not seen[id] and Lease.held(keys, id, number) == 'leased' then
    seen[id], extended = true, extended + 1
    -- A write that frees memory goes first: then Redis lets the other follow at its limit.
    redis.call('ZREM', keys.leased, id)
    redis.call('ZADD', keys.leased, until_ms, id)
  end
end
reply[#reply + 1], reply[#reply + 2] = extended, until_ms
return Call.applied(reply)
