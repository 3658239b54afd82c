-- Take pending messages in offer order, whatever their due time; at most once.
--
-- KEYS[1]  string  call        number of this link's last call
-- KEYS[2]  zset    timeout     member -> due, Unix ms
-- KEYS[3]  list    list        the members in offer order
-- KEYS[4]  hash    queue_key   true name, order_list
-- KEYS[5]  hash    names       name -> message id
-- KEYS[6]  hash    ids         hex of the id -> name
-- KEYS[7]  zset    quarantine  unreadable member -> its score
-- ARGV[1]  int     number      of this call
-- ARGV[2]  int     valid_until_ms
-- ARGV[3]  text    queue
-- ARGV[4]  int     count       messages at most
-- ARGV[5]  int     bytes_max   of members; one message is taken however large
-- RETURN   { now_us, 'OK', payload... }, { now_us, 'LATE' | 'SETTLED' },
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
--          { now_us, 'NOLIST' } where no order list is kept: see first.lua, take.lua
--          The payloads are not stored for settling: there the reply is { now_us, 'APPLIED' }
-- COST     O(count * log pending), and as much for each stale or unreadable member that is met

local call_key, timeout, list, queue_key, names, ids, quarantine = unpack(KEYS)
local number, valid_until_ms, queue = ARGV[1], ARGV[2], ARGV[3]
local count, bytes_max = tonumber(ARGV[4]), tonumber(ARGV[5])
local met_max = 10000 -- stale or unreadable: bounds the time where nearly all are

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = guard(call_key, number, valid_until_ms, now_us / 1000)
if refused then return { now_us, refused } end
local keeps_list
refused, keeps_list = refuse(now_us, queue_key, queue, {
  timeout, 'zset', list, 'list', names, 'hash', ids, 'hash', quarantine, 'zset',
})
if refused then return applied(call_key, number, refused) end
if not keeps_list then return applied(call_key, number, { now_us, 'NOLIST' }) end

local reply, bytes, taken, poison, full = { now_us, 'OK' }, 0, {}, {}, count < 1

-- False if the member has to wait for a later call.
local function take(member, score)
  local payload, id = read(member)
  if payload then
    if bytes + #member > bytes_max and #reply > 2 then return false end
    bytes = bytes + #member
    reply[#reply + 1] = payload
    taken[#taken + 1] = hex(id)
    full = #reply == count + 2
  else
    poison[#poison + 1], poison[#poison + 2] = score, member
  end
  redis.call('ZREM', timeout, member)
  return true
end

-- What only the zset has counts after all that is listed. `met` members leave the list's head.
-- Large members are read one by one: none that does not fit, but the last.
local met, page, step = 0, nil, 1
local function goes_on() return not full and (bytes < bytes_max or #reply == 2) end
while goes_on() and met < met_max and redis.call('EXISTS', timeout) == 1 do
  page = redis.call('LRANGE', list, met, met + math.min(count, step) - 1)
  for i = 1, #page do
    local score = redis.call('ZSCORE', timeout, page[i])
    if full or (score and not take(page[i], score)) then
      full = true
      break
    end
    met = met + 1
  end
  if #page == 0 then break end
  step = 32 * bytes <= bytes_max * (#reply - 2) and 8 or 1
end
while goes_on() and #poison < met_max do
  local head = redis.call('ZRANGE', timeout, 0, 0, 'WITHSCORES')
  if not head[1] or not take(head[1], head[2]) then break end
end

if met > 0 then redis.call('LTRIM', list, met, -1) end
for from = 1, #poison, 1000 do
  redis.call('ZADD', quarantine, unpack(poison, from, math.min(from + 999, #poison)))
end
forget(names, ids, taken)
applied(call_key, number, { now_us, 'APPLIED' })
return reply
