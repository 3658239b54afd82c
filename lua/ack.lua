-- Settle leased messages as done: they are forgotten.
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
-- ARGV[4..] bytes   receipts  id, delivery number of each
-- RETURN    { now_us, 'OK', acked }: how many; a receipt counts until its message is handed out
--           again, whether its lease has run out, and even if the message is dead. Then
--           1, if only so many messages of the queue may be leased at a time.
--           { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--           { now_us, 'BADQUEUE', true name }
-- COST      O(log leased) for each receipt

local keys = {
  timeout = KEYS[2], leased = KEYS[4], retry = KEYS[5], dead = KEYS[6], taken = KEYS[7],
  tries = KEYS[8],
}
local now_us, queue, refused = Begin.write(KEYS[3], ARGV[3], Lease.kinds(keys))
if refused then return refused end

local ids, numbers = {}, {}
for i = 4, #ARGV, 2 do ids[#ids + 1], numbers[#numbers + 1] = ARGV[i], ARGV[i + 1] end
local acked = 0
for from = 1, #ids, 1000 do
  local to, fitting, counted = math.min(from + 999, #ids), {}, false
  local tries = redis.call('HMGET', keys.tries, unpack(ids, from, to))
  for i = from, to do
    local noted = tries[i - from + 1]
    if Lease.fits(noted, numbers[i]) then fitting[#fitting + 1] = ids[i] end
    counted = counted or noted
  end
  if #fitting > 0 then
    -- An id is in one of the three, and nearly always in the first.
    local gone = redis.call('ZREM', keys.leased, unpack(fitting))
    if gone < #fitting then
      gone = gone + redis.call('ZREM', keys.retry, unpack(fitting))
        + redis.call('ZREM', keys.dead, unpack(fitting))
    end
    if gone > 0 then
      redis.call('HDEL', keys.taken, unpack(fitting))
      if counted then redis.call('HDEL', keys.tries, unpack(fitting)) end
    end
    acked = acked + gone
  end
end
if acked > 0 then Lease.prune(keys, queue, ARGV[3], now_us) end
local limited = (Record.setting(queue.settings, 'in_flight_max') or 0) > 0
return Call.applied({ now_us, 'OK', acked, limited and 1 or nil })
