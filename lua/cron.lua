-- Offer occurrences of schedules, and note when each comes next; or only note that. Of several
-- brokers that come with the same occurrence the first one offers it.
--
-- KEYS[1]   string  call         number and reply of this link's last call
-- KEYS[2]   list    destination
-- KEYS[3]   zset    timeout      member -> due, Unix ms
-- KEYS[4]   list    list         the members in offer order
-- KEYS[5]   hash    record       true name, format, order_list
-- KEYS[6]   hash    names        name -> message id
-- KEYS[7]   hash    ids          hex of the id -> name
-- KEYS[8]   hash    held         names that are held until their messages are done: see _held.lua
-- KEYS[9]   zset    crons        name -> next occurrence, ms; inf while it is paused
-- KEYS[10]  hash    cron         specifications, payloads and last moments: see _cron.lua
-- KEYS[11]  none    guard        the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number       of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4..] of each schedule in turn:
--           text    name
--           text    spec         as it was read; '' where it cannot be used
--           score   due          its next occurrence, as it was read
--           score   next         the one after those that are offered; inf pauses it
--           int     last         nothing at or before this moment, ms, is offered again; '' keeps
--                                what is noted
--           int     skips        1: an occurrence is left out while the one before is pending,
--                                or holds its name
--           int     count        occurrences, and of each:
--           text    id           8 bytes, which grow
--           int     moment       Unix ms, the due time of its message
-- RETURN    { now_us, 'OK', head, earliest, outcome, stored... }; head: the least next occurrence,
--           '' if there is no schedule; earliest: the due time of the first message that was the
--           head of the queue when it was stored, '' if none was. Of each schedule: how many
--           messages were stored, and '' if the others were left out; 'STALE': it is not as it was
--           read, and nothing was done; else why the next one was not stored, which it waits for.
--           { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--           { now_us, 'BADQUEUE', true name }
-- COST      O(log pending) for each occurrence, and a copy of its payload

local _, destination, timeout, list, record, names, ids, _, crons, cron = unpack(KEYS)
local queue_name = ARGV[3]

local now_us, queue, refused = Begin.write(record, queue_name, {
  destination, 'list', timeout, 'zset', list, 'list', names, 'hash', ids, 'hash', crons, 'zset',
  cron, 'hash',
})
if refused then return refused end

local earliest

-- Offers the occurrences that begin at ARGV[at]. How many were stored; where one was not, its
-- moment and why.
local function offer(name, skips, at, count)
  local payload, stored = redis.call('HGET', cron, 'payload:' .. name), 0
  local length = struct.pack('<I8', #payload)
  local message_name = skips and 'cron:' .. name or nil
  for i = at, at + 2 * count - 1, 2 do
    local members = { string.char(8) .. ARGV[i] .. length .. payload }
    local moment = tonumber(ARGV[i + 1])
    -- It is due at its own moment, also where that has passed.
    local outcome = Store.group(KEYS, 2, 0, members, 1, 1, -moment, '', '', message_name, 'NX',
      nil, Store.named)
    if type(outcome) == 'string' then return stored, moment, outcome end
    if outcome ~= 2 then stored = stored + 1 end
    if outcome == 1 and (not earliest or moment < earliest) then earliest = moment end
  end
  return stored
end

local reply, at = { now_us, 'OK', '', '' }, 4
while ARGV[at] do
  local name, spec, due, next_due, last, skips, count = unpack(ARGV, at, at + 6)
  count = tonumber(count)
  local score = redis.call('ZSCORE', crons, name)
  local stored, failed_at, why = 0, nil, nil
  if not score or (score ~= due and tonumber(score) ~= tonumber(due))
    or Cron.spec(cron, name) ~= spec then
    why = 'STALE'
  else
    if count > 0 then stored, failed_at, why = offer(name, skips == '1', at + 7, count) end
    if not why then
      redis.call('ZADD', crons, next_due, name)
      if last ~= '' then redis.call('HSET', cron, 'last:' .. name, last) end
    elseif failed_at ~= tonumber(score) then
      redis.call('ZADD', crons, string.format('%d', failed_at), name)
    end
  end
  reply[#reply + 1], reply[#reply + 2] = stored, why or ''
  at = at + 7 + 2 * count
end
reply[3] = Cron.head(crons)
if earliest then reply[4] = string.format('%d', earliest) end
return Call.applied(reply)
