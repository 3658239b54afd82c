-- Say of which queues something can be taken, for those who wait at them.
--
-- KEYS[1..]       of each queue in turn:
--           list  destination
--           zset  leased       id -> until, ms
--           zset  retry        id -> when it can be taken again, ms
--           hash  record       settings
--           zset  first        due messages with a priority
-- RETURN    { now_us, 'OK', ready... }: of each queue 1 | 0; 0 where a key holds another type
-- COST      O(1) for each queue

local keys = KEYS

local now_us = Begin.now()
local reply = { now_us, 'OK' }
local function is_due(zset)
  local head = redis.pcall('ZRANGE', zset, 0, 0, 'WITHSCORES')
  return not head.err and head[2] and tonumber(head[2]) <= now_us / 1000
end
local function is_ready(destination, leased, retry, record, first)
  -- Nearly all queues that somebody waits at are empty.
  if redis.call('EXISTS', destination, leased, retry, first) == 0 then return false end
  if is_due(leased) then return true end
  local length = redis.pcall('LLEN', destination)
  local listed = type(length) == 'number' and length > 0 or redis.call('EXISTS', first) == 1
  if not listed and not is_due(retry) then return false end
  -- Where as many are leased as may be, none of these can be had.
  local settings = redis.pcall('HGET', record, 'settings')
  local max = type(settings) == 'string' and Record.setting(settings, 'in_flight_max') or 0
  local count = max > 0 and redis.pcall('ZCARD', leased)
  return type(count) ~= 'number' or count < max
end
for i = 1, #keys, 5 do
  reply[#reply + 1] = is_ready(unpack(keys, i, i + 4)) and 1 or 0
end
return reply
