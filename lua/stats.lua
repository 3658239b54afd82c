-- Read the sizes of many queues: metrics, lists of queues.
--
-- KEYS[1]   hash  all  pause of all queues; may be left out where there is no queue
-- KEYS[2..]       of each queue in turn:
--           zset  timeout      member -> due, Unix ms
--           list  destination  or a stream
--           hash  record       pause
--           zset  quarantine   unreadable member -> its score
--           zset  leased       id -> until, ms
--           zset  retry        id -> when it can be taken again, ms
--           zset  dead         id -> died, ms
--           zset  first        due messages with a priority
-- ARGV[1..] int   known  of each queue: when its head is due as far as is known, ms; or ''
-- RETURN    { now_us, 'OK', pending, ready, next_due, paused, quarantined, minute, hour,
--           leased, waiting, dead, again... }: of each queue; -1 where a key holds another
--           type; next_due: score of the head, or when the queue's rate lets it go, '' if none;
--           paused: 1 | 0, by itself or with all; minute, hour: what is due within, -1 where
--           members are large; again: when a message can be taken again, ms, or ''. Fewer than
--           asked where finding scores took long: the rest is to be asked again
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

local function size(key)
  local found = redis.pcall('ZCARD', key)
  return type(found) == 'number' and found or -1
end

-- When the first message can be taken again: its retry has come, or its lease has run out.
local function again(leased, retry)
  local least
  for _, key in ipairs({ leased, retry }) do
    local head = redis.pcall('ZRANGE', key, 0, 0, 'WITHSCORES')
    local ms = not head.err and tonumber(head[2])
    if ms and (not least or ms < least) then least = ms end
  end
  return least and string.format('%.0f', least) or ''
end

local all = KEYS[1]
local expected = ARGV

local now_us = Begin.now()
local reply, spent_us = { now_us, 'OK' }, 0
local of_all = all and redis.pcall('HGET', all, 'paused_until')
for i = 2, #KEYS, 8 do
  local pending = redis.pcall('ZCARD', KEYS[i])
  local ready = redis.pcall('LLEN', KEYS[i + 1])
  local of_record = redis.pcall('HMGET', KEYS[i + 2], 'paused_until', 'settings')
  local own, settings = of_record[1], of_record[2]
  if type(ready) ~= 'number' and settings and Record.destination(settings) == 'stream' then
    ready = redis.pcall('XLEN', KEYS[i + 1])
  end
  local quarantined = redis.pcall('ZCARD', KEYS[i + 3])
  pending = type(pending) == 'number' and pending or -1
  local known, next_due, cost = tonumber(expected[(i + 6) / 8]), '', 0
  if pending > 0 then
    next_due, cost = Head.score(KEYS[i], pending, math.floor(now_us / 1000), known)
  end
  local head = tonumber(next_due)
  if head and (Record.setting(settings, 'rate') or 0) > 0 then
    local queue, now_ms = { key = KEYS[i + 2], settings = settings }, now_us / 1000
    local let_go_ms = Rate.next_ms(queue, Rate.tokens(queue, now_ms), now_ms)
    -- One that may go is late from its own time on.
    if let_go_ms > now_ms and let_go_ms > head then next_due = string.format('%.0f', let_go_ms) end
  end
  local before = #reply
  reply[before + 1] = pending
  reply[before + 2] = type(ready) == 'number' and ready + math.max(size(KEYS[i + 7]), 0) or -1
  reply[before + 3] = next_due
  reply[before + 4] = Pause.of(own, of_all, now_us / 1000) == '' and 0 or 1
  reply[before + 5] = type(quarantined) == 'number' and quarantined or -1
  reply[before + 6], reply[before + 7] = due_within(KEYS[i], pending, next_due, now_us / 1000)
  local leased, waiting = size(KEYS[i + 4]), size(KEYS[i + 5])
  reply[before + 8], reply[before + 9], reply[before + 10] = leased, waiting, size(KEYS[i + 6])
  reply[before + 11] = leased + waiting > 0 and again(KEYS[i + 4], KEYS[i + 5]) or ''
  spent_us = spent_us + cost
  if spent_us > Head.spent_max_us then break end
end
return reply
