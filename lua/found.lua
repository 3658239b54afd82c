-- Read whose the keys are and when the next message is due, of many queues that were just found.
--
-- KEYS[1..]         of each queue in turn, at most 1,000 of them:
--           zset    timeout   member -> due, Unix ms
--           hash    record    true name of the queue
-- RETURN    { now_us, 'OK', name, head... }: of each queue; name: the recorded one, '' if none;
--           head: its score, '' if nothing is pending, 'WRONGTYPE' if the key holds no zset.
--           Where finding scores took long, '>' for one that is not due yet, or now for one that is
--           due; and in the end fewer than asked: the rest is to be asked again
-- COST      O(log pending) for each queue, whatever the size of the members

local keys = KEYS

local now_us = Begin.now()
local reply, spent_us = { now_us, 'OK' }, 0
for i = 1, #keys, 2 do
  local pending = redis.pcall('ZCARD', keys[i])
  -- Nothing recorded is false, another type a table.
  local name = redis.pcall('HGET', keys[i + 1], 'name')
  reply[i + 2] = type(name) == 'string' and name or ''
  reply[i + 3] = 'WRONGTYPE'
  if type(pending) == 'number' then
    local now_ms, roughly = math.floor(now_us / 1000), spent_us > Head.spent_max_us
    local head, cost = Head.score(keys[i], pending, now_ms, nil, roughly)
    reply[i + 3], spent_us = head, spent_us + cost
    if spent_us > 2 * Head.spent_max_us then break end
  end
end
return reply
