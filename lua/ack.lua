-- Settle leased messages as done, for one client or several: they are forgotten.
--
-- KEYS[1]   string  call     number and reply of this link's last call
-- KEYS[2]   zset    timeout  member -> due, Unix ms; says only whose the keys are
-- KEYS[3]   hash    record   true name of the queue
-- KEYS[4]   zset    leased   id -> until, ms
-- KEYS[5]   zset    retry    id -> when it can be taken again, ms
-- KEYS[6]   zset    dead     id -> died, ms
-- KEYS[7]   hash    taken    id -> payload
-- KEYS[8]   hash    tries    id -> deliveries, base, reason: see _lease.lua
-- KEYS[9]   hash    held     names that are held until their messages are done: see _held.lua
-- KEYS[10]  none    guard    the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number   of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4..] bytes   receipts  id, delivery number of each; behind a number '' those of the next
--                             client
-- RETURN    { now_us, 'OK', acked... }: how many of each client; a receipt counts until its message
--           is handed out again, whether its lease has run out, and even if the message is dead.
--           Then 1, if only so many messages of the queue may be leased at a time.
--           { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--           { now_us, 'BADQUEUE', true name },
--           { now_us, 'STREAM' }: its consumers ask Redis
-- COST      O(log leased) for each receipt

local keys = {
  timeout = KEYS[2], leased = KEYS[4], retry = KEYS[5], dead = KEYS[6], taken = KEYS[7],
  tries = KEYS[8], held = KEYS[9],
}
local now_us, queue, refused = Lease.begin(KEYS[3], ARGV[3], Lease.kinds(keys))
if refused then return refused end

local reply = { now_us, 'OK' }
local ids, numbers, ends = {}, {}, {} -- ends: how many receipts there are up to each client's last
for i = 4, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    ends[#ends + 1] = #ids
  else
    ids[#ids + 1], numbers[#numbers + 1] = ARGV[i], ARGV[i + 1]
  end
end
ends[#ends + 1] = #ids

local fits, counted = {}, false
for from = 1, #ids, 1000 do
  local to = math.min(from + 999, #ids)
  local tries = redis.call('HMGET', keys.tries, unpack(ids, from, to))
  for i = from, to do
    local noted = tries[i - from + 1]
    fits[i] = Lease.fits(noted, numbers[i])
    counted = counted or noted
  end
end

local ended = 0 -- leases

-- An id is in one of the three, and nearly always in the first.
local function settle(fitting)
  local gone = redis.call('ZREM', keys.leased, unpack(fitting))
  ended = ended + gone
  if gone < #fitting then
    gone = gone + redis.call('ZREM', keys.retry, unpack(fitting))
      + redis.call('ZREM', keys.dead, unpack(fitting))
  end
  return gone
end

local settled, done = {}, 0
for client = 1, #ends do
  local acked, fitting = 0, {}
  for i = done + 1, ends[client] do
    if fits[i] then fitting[#fitting + 1] = ids[i] end
    if #fitting == 1000 or (i == ends[client] and #fitting > 0) then
      local gone = settle(fitting)
      for j = 1, gone > 0 and #fitting or 0 do
        -- Where not all were there, what was not is nobody's yet, and keeps its name.
        local id = fitting[j]
        if gone == #fitting or Lease.is_taken(keys.taken, id) then settled[#settled + 1] = id end
      end
      acked, fitting = acked + gone, {}
    end
  end
  done = ends[client]
  reply[#reply + 1] = acked
end
for from = 1, #settled, 1000 do
  local to = math.min(from + 999, #settled)
  redis.call('HDEL', keys.taken, unpack(settled, from, to))
  if counted then redis.call('HDEL', keys.tries, unpack(settled, from, to)) end
end
Lease.free_names(keys.held, settled)
Wake.room(queue, keys.leased, ended)
if #settled > 0 then Lease.prune(keys, queue, ARGV[3], now_us) end
if (Record.setting(queue.settings, 'in_flight_max') or 0) > 0 then reply[#reply + 1] = 1 end
return Call.applied(reply)
