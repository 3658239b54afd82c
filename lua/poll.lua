-- Take pending messages in offer order, whatever their due time; at most once.
--
-- KEYS[1]  string  call        number of this link's last call
-- KEYS[2]  zset    timeout     member -> due, Unix ms
-- KEYS[3]  list    list        the members in offer order
-- KEYS[4]  hash    record      true name, order_list
-- KEYS[5]  hash    names       name -> message id
-- KEYS[6]  hash    ids         hex of the id -> name
-- KEYS[7]  zset    quarantine  unreadable member -> its score
-- KEYS[8]  none    guard       the channel's name, never a key: see _begin.lua
-- ARGV[1]  int     number      of this call
-- ARGV[2]  int     valid_until_ms
-- ARGV[3]  text    queue
-- ARGV[4]  int     count       messages at most
-- ARGV[5]  int     bytes_max   of members; one message is taken however large
-- ARGV[6]  int     message_max bytes of a member beyond which it is not taken
-- RETURN   { now_us, 'OK', more 0 | 1, payload... }, more where stale and unreadable members were
--          so many or so large that others may come after them. { now_us, 'LATE' | 'SETTLED' },
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
--          { now_us, 'TOOBIG', bytes, message id, message_max } where the first message is larger;
--          another one that is ends the reply before it
--          { now_us, 'NOLIST' } where no order list is kept: see first.lua, poll_pending.lua
--          The payloads are not stored for settling: there the reply is { now_us, 'APPLIED' }
-- COST     O(count * log pending), and as much for each stale or unreadable member that is met:
--          of these 1 MiB, and the one that exceeds it

local _, timeout, list, record, names, ids, quarantine = unpack(KEYS)
local count, bytes_max = tonumber(ARGV[4]), tonumber(ARGV[5])
local message_max = tonumber(ARGV[6])
-- Stale or unreadable: bounds the time where nearly all are.
local met_max, met_bytes_max = 10000, 1048576

local now_us, queue, refused = Begin.write(record, ARGV[3], {
  timeout, 'zset', list, 'list', names, 'hash', ids, 'hash', quarantine, 'zset',
})
if refused then return refused end
if not queue.keeps_list then return Call.applied({ now_us, 'NOLIST' }) end

local reply, bytes, taken, poison, full = { now_us, 'OK', 0 }, 0, {}, {}, count < 1
local others_bytes, too_big = 0, nil

-- False if the member has to wait for a later call.
local function take(member, score)
  local payload, id = Member.read(member)
  if payload then
    if #member > message_max and #reply == 3 then
      too_big = { now_us, 'TOOBIG', #member, Member.message_id(score, id), message_max }
    end
    if #member > message_max or (bytes + #member > bytes_max and #reply > 3) then return false end
    bytes = bytes + #member
    reply[#reply + 1] = payload
    taken[#taken + 1] = Member.hex(id)
    full = #reply == count + 3
  else
    poison[#poison + 1], poison[#poison + 2] = score, member
    others_bytes = others_bytes + #member
  end
  redis.call('ZREM', timeout, member)
  return true
end

-- What only the zset has counts after all that is listed. `met` members leave the list's head.
-- Large members are read one by one: none that does not fit, but the last.
local met, page, step = 0, nil, 1
local function goes_on()
  if full or (bytes >= bytes_max and #reply > 3) then return false end
  if met < met_max and #poison < met_max and others_bytes < met_bytes_max then return true end
  reply[3] = 1
  return false
end
while goes_on() and redis.call('EXISTS', timeout) == 1 do
  page = redis.call('LRANGE', list, met, met + math.min(count, step) - 1)
  for i = 1, #page do
    local score = redis.call('ZSCORE', timeout, page[i])
    if full or (score and not take(page[i], score)) then
      full = true
      break
    end
    if not score then others_bytes = others_bytes + #page[i] end
    met = met + 1
  end
  if #page == 0 then break end
  step = 32 * (bytes + others_bytes) <= bytes_max * met and 2 or 1
end
while goes_on() do
  local head = redis.call('ZRANGE', timeout, 0, 0, 'WITHSCORES')
  if not head[1] or not take(head[1], head[2]) then break end
end

if met > 0 then redis.call('LTRIM', list, met, -1) end
for from = 1, #poison, 1000 do
  redis.call('ZADD', quarantine, unpack(poison, from, math.min(from + 999, #poison)))
end
Names.forget(timeout, names, ids, taken)
if too_big then return Call.applied(too_big) end
Call.applied({ now_us, 'APPLIED' })
return reply
