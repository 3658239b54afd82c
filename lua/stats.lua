-- Read the sizes of many queues: metrics, lists of queues.
--
-- KEYS[1]   hash  all  pause of all queues; may be left out where there is no queue
-- KEYS[2..]       of each queue in turn:
--           zset  timeout      member -> due, Unix ms
--           list  destination
--           hash  record       pause
--           zset  quarantine   unreadable member -> its score
-- ARGV[1..] int   known  of each queue: when its head is due as far as is known, ms; or ''
-- RETURN    { now_us, 'OK', pending, ready, next_due, paused, quarantined, minute, hour... }:
--           of each queue; -1 where a key holds another type; next_due: score of the head, ''
--           if none; paused: 1 | 0, by itself or with all; minute, hour: what is due within, -1
--           where members are large. Fewer than asked where finding scores took long: the rest
--           is to be asked again
-- COST      O(log pending) for each queue, whatever the size of the members

-- What is due within a minute and an hour. To count them compares the first and the last.
local function due_within(timeout, pending, next_due, now_ms)
  local minute, hour = math.floor(now_ms) + 60000, math.floor(now_ms) + 3600000
  local head = tonumber(next_due)
  if pending < 0 then return -1, -1 end
  if not head or head > hour then return 0, 0 end
  local bytes = redis.pcall('MEMORY', 'USAGE', timeout, 'SAMPLES', '1')
  if type(bytes) ~= 'number' or bytes / pending > Head.read_max then return -1, -1 end
  return redis.call('ZCOUNT', timeout, '-inf', minute), redis.call('ZCOUNT', timeout, '-inf', hour)
end

local all = KEYS[1]
local expected = ARGV

local now_us = Begin.now()
local reply, spent_us = { now_us, 'OK' }, 0
local of_all = all and redis.pcall('HGET', all, 'paused_until')
for i = 2, #KEYS, 4 do
  local pending = redis.pcall('ZCARD', KEYS[i])
  local ready = redis.pcall('LLEN', KEYS[i + 1])
  local own = redis.pcall('HGET', KEYS[i + 2], 'paused_until')
  local quarantined = redis.pcall('ZCARD', KEYS[i + 3])
  pending = type(pending) == 'number' and pending or -1
  local known, next_due, cost = tonumber(expected[(i + 2) / 4]), '', 0
  if pending > 0 then
    next_due, cost = Head.score(KEYS[i], pending, math.floor(now_us / 1000), known)
  end
  local size = #reply
  reply[size + 1] = pending
  reply[size + 2] = type(ready) == 'number' and ready or -1
  reply[size + 3] = next_due
  reply[size + 4] = Pause.of(own, of_all, now_us / 1000) == '' and 0 or 1
  reply[size + 5] = type(quarantined) == 'number' and quarantined or -1
  reply[size + 6], reply[size + 7] = due_within(KEYS[i], pending, next_due, now_us / 1000)
  spent_us = spent_us + cost
  if spent_us > Head.spent_max_us then break end
end
return reply
