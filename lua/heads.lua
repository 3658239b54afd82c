-- Read whether the head of a queue is due before it is expected, of many queues: the safety scan.
--
-- KEYS[1..]       of each queue, at most 1,000 of them:
--           zset  timeout  member -> due, Unix ms
-- ARGV[1..] int     known    of each: when its head is due as far as is known, ms; '' if nothing is
-- RETURN    { now_us, 'OK', head... }: '=' if messages are pending and none is due before `known`;
--           else the score of the head, '' if nothing is pending, 'WRONGTYPE' if the key holds no
--           zset. Fewer than asked where finding scores took long: the rest is to be asked again
-- COST      O(log pending) for each queue, whatever the size of the members

local timeouts = KEYS
local expected = ARGV

local now_us = Begin.now()
local reply, spent_us = { now_us, 'OK' }, 0
for i = 1, #timeouts do
  local timeout, known = timeouts[i], tonumber(expected[i])
  local pending = redis.pcall('ZCARD', timeout)
  if type(pending) == 'table' then
    reply[i + 2] = 'WRONGTYPE'
  elseif pending > 0 and known and (known == 0 or Head.none_until(timeout, known - 1)) then
    reply[i + 2] = '='
  else
    local head, cost = Head.score(timeout, pending, math.floor(now_us / 1000), known)
    reply[i + 2], spent_us = head, spent_us + cost
    if spent_us > Head.spent_max_us then break end
  end
end
return reply
