-- Read whether the head of a queue is due before it is expected, of many queues: the safety scan.
--
-- KEYS[1..]       of each queue, at most 1,000 of them:
--           zset  timeout  member -> due, Unix ms
-- ARGV[1..] text  until_ms  of each: the last ms at which nothing is due, as far as is known;
--                           '(-inf' if its head may have any score, '' if nothing is known
-- RETURN    { now_us, 'OK', head... }: '=' if messages are pending and none is due until then;
--           else the score of the head, '' if nothing is pending, 'WRONGTYPE' if the key holds no
--           zset. Fewer than asked where finding scores took long: the rest is to be asked again
-- COST      O(log pending) for each queue, whatever the size of the members: one command, and one
--           for all together, unless a head is new or a queue is empty

local timeouts = KEYS
local expected = ARGV

local now_us = Begin.now()
local reply, spent_us = { now_us, 'OK' }, 0
local none_is_empty = redis.call('EXISTS', unpack(timeouts)) == #timeouts
for i = 1, #timeouts do
  -- Text: Redis takes 0.4 us to make one of a number.
  local timeout, until_ms = timeouts[i], expected[i] or ''
  local is_as_known = until_ms ~= '' and redis.pcall('ZCOUNT', timeout, '-inf', until_ms) == 0
  local pending = is_as_known and none_is_empty or redis.pcall('ZCARD', timeout)
  if type(pending) == 'table' then
    reply[i + 2] = 'WRONGTYPE'
  elseif is_as_known and pending ~= 0 then
    reply[i + 2] = '='
  else
    local now_ms, near = math.floor(now_us / 1000), tonumber(until_ms)
    local head, cost = Head.score(timeout, pending, now_ms, near and near + 1)
    reply[i + 2], spent_us = head, spent_us + cost
    if spent_us > Head.spent_max_us then break end
  end
end
return reply
