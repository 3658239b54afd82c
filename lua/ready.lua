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
for i = 1, #keys, 5 do
  local length = redis.pcall('LLEN', keys[i])
  local listed = type(length) == 'number' and length > 0 or redis.call('EXISTS', keys[i + 4]) == 1
  local ready = is_due(keys[i + 1])
  if not ready and (listed or is_due(keys[i + 2])) then
    -- Where as many are leased as may be, none of these can be had.
    local settings = redis.pcall('HGET', keys[i + 3], 'settings')
    local max = type(settings) == 'string' and Record.setting(settings, 'in_flight_max') or 0
    local leased = max > 0 and redis.pcall('ZCARD', keys[i + 1])
    ready = type(leased) ~= 'number' or leased < max
  end
  reply[#reply + 1] = ready and 1 or 0
end
return reply
