-- Record what the configuration says of a queue, and with it that the keys are this queue's. Where
-- it is to keep no order list any more, what is listed is dropped: pending is what the zset has.
--
-- KEYS[1]  hash  record      true name, format, order_list
-- KEYS[2]  zset  timeout     member -> due, Unix ms
-- KEYS[3]  list  list        the members in offer order
-- KEYS[4]  none  guard       the channel's name, never a key: see _begin.lua
-- ARGV[1]  text  queue
-- ARGV[2]  text  format      'legacy' or 'modern'; '' leaves it
-- ARGV[3]  text  order_list  'on' or 'off'; '' leaves it
-- ARGV[4]  int   listeners   subscribed to the queue's channel: clients of Redisson
-- RETURN   { now_us, 'OK', outcome, dropped }: 'DONE', and how many entries the list had. Or why
--          order_list stays as it was: 'PENDING' (off, and messages are pending), 'LISTENERS' or
--          'OTHERS' (on, and others listed members). { now_us, 'WRONGTYPE', key },
--          { now_us, 'BADQUEUE', true name }
-- COST     O(1): of the list a hundred entries or 1 MiB are looked at

local record, timeout, list = unpack(KEYS)
local name, format, order_list, listeners = unpack(ARGV)

local now_us = Begin.now()
local kinds = { timeout, 'zset', list, 'list' }
local queue, refused = Begin.queue(now_us, record, name, kinds, true)
if refused then return refused end

-- Ids of ours begin with the milliseconds since 2024 in 42 bits, here in units of 1,024: not later
-- than tomorrow. Of random ids, such as Redisson's, one in fifty passes, in 2026.
local latest = (now_us / 1000 - 1704067200000 + 86400000) / 1024
local function ours(member)
  local id = Member.id(member)
  return id and #id == 8 and struct.unpack('>I4', id) <= latest
end

-- Whether a look at both ends of the list shows members of others.
local function others_listed()
  local bytes = 0
  for i = 0, 49 do
    for _, at in ipairs({ i, -1 - i }) do
      local member = redis.call('LINDEX', list, at)
      if not member or bytes > 1048576 then return false end
      if not ours(member) then return true end
      bytes = bytes + #member
    end
  end
  return false
end

if queue.name ~= name then redis.call('HSET', record, 'name', name) end
if format == 'legacy' then redis.call('HSET', record, 'format', format) end
if format == 'modern' then
  -- Brokers before DQ.SETUP forget a record without a format, whatever is set in it.
  if queue.settings then
    redis.call('HSET', record, 'format', format)
  else
    redis.call('HDEL', record, 'format')
  end
end

local outcome, dropped = 'DONE', 0
if order_list == 'off' and queue.keeps_list then
  if tonumber(listeners) > 0 then
    outcome = 'LISTENERS'
  elseif others_listed() then
    outcome = 'OTHERS'
  else
    dropped = redis.call('LLEN', list)
    redis.call('HSET', record, 'order_list', 'off')
    redis.call('UNLINK', list)
  end
elseif order_list == 'on' and not queue.keeps_list then
  if redis.call('EXISTS', timeout) == 1 then
    outcome = 'PENDING'
  else
    redis.call('HDEL', record, 'order_list')
    redis.call('UNLINK', list)
  end
end
return { now_us, 'OK', outcome, dropped }
