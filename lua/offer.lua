-- Store messages: each group of one queue in zset and order list, or nothing of it.
--
-- KEYS[1]   string  call         number and reply of this link's last call
-- KEYS[2..]         of each group in turn:
--           list    destination
--           zset    timeout      member -> due, Unix ms
--           list    list         the members in offer order
--           hash    queue_key    true name, format, order_list
--           hash    names, ids   of a named group only: name -> message id, hex of the id -> name
-- ARGV[1]   int     number       of this call; grows from call to call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3..] msgpack group        [queue, configured, delays, members]; of a named one, which holds
--           one message, [..., name, mode]. Strings are `str`: cmsgpack does not know `bin`.
--           configured: '' as recorded, else [format, order_list], recorded where none is: 'legacy'
--           or 'modern'; 'off', where nothing is pending, or ''.
--           delays: one int for all, or an array; >= 0: ms from now, < 0: the due time negated.
--           members: modern, with ids of 8 bytes.
--           mode: '' replaces, 'NX' only if absent, 'XX' only if present
-- RETURN    { now_us, 'OK', outcome of each group... }, { now_us, 'LATE' | 'SETTLED' }. Outcome:
--           0 stored, 1 stored and published, 2 nothing done (NX, XX), or why nothing was stored:
--           'WRONGTYPE key', 'BADQUEUE true name', 'CLASH', words of Redis ('OOM ...'); only after
--           'INTERNAL id clash' (several messages) some may be stored
-- COST      O(log pending) for each message

local call_key = KEYS[1]
local number, valid_until_ms = ARGV[1], ARGV[2]

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_ms = math.ceil(now_us / 1000)
local refused = guard(call_key, number, valid_until_ms, now_us / 1000)
if refused then return { now_us, refused } end

-- One unreadable group must not fail its neighbours, so what may fail is called by pcall.
local function reason(reply, key)
  if string.find(reply.err, 'WRONGTYPE', 1, true) then return 'WRONGTYPE ' .. key end
  return string.match(reply.err, '%u%u+ [^\r\n]*') or reply.err
end

-- Zset and list of one group: nil, or why it was not stored. The list goes first: its refusal,
-- being the first write, leaves nothing behind. Without one (`false`) the zset is the first write.
-- Returns the least score too.
local function store(timeout, list, delays, members)
  local count = #members
  if list then
    local pushed = redis.pcall('RPUSH', list, unpack(members, 1, math.min(count, 1000)))
    if type(pushed) ~= 'number' then return reason(pushed, list) end
    for from = 1001, count, 1000 do
      redis.call('RPUSH', list, unpack(members, from, math.min(from + 999, count)))
    end
  end

  local each = type(delays) == 'table' and delays
  local delay, score, least, added = nil, nil, math.huge, 0
  local pairs_of = {}
  for from = 1, count, 500 do
    local to, at = math.min(from + 499, count), 0
    for i = from, to do
      local next_delay = each and each[i] or delays
      if next_delay ~= delay then
        delay = next_delay
        local due = delay < 0 and math.max(-delay, now_ms) or now_ms + delay
        if due < least then least = due end
        score = string.format('%.0f', due)
      end
      pairs_of[at + 1], pairs_of[at + 2] = score, members[i]
      at = at + 2
    end
    local now_added = redis.pcall('ZADD', timeout, 'NX', unpack(pairs_of, 1, at))
    if type(now_added) ~= 'number' then
      if from > 1 then return 'INTERNAL ' .. reason(now_added, timeout) end
      if list then redis.call('LTRIM', list, 0, -count - 1) end
      return reason(now_added, timeout)
    end
    added = added + now_added
  end
  if added == count then return nil, least end
  if count > 1 then return 'INTERNAL id clash' end
  if list then redis.call('RPOP', list) end
  return 'CLASH'
end

-- Up to two names of messages that are gone (other programs take messages without knowing names).
local function sweep(timeout, names, ids)
  local some = redis.call('HRANDFIELD', names, 2, 'WITHVALUES')
  for i = 1, #some, 2 do
    if not find(timeout, names, '', some[i]) then
      redis.call('HDEL', names, some[i])
      redis.call('HDEL', ids, string.match(some[i + 1], '%x*$'))
    end
  end
end

-- A named message, which takes the place of the pending one of that name.
local function offer_named(timeout, list, keeps_list, names, ids, delay, member, id, name, mode)
  local text = redis.pcall('HGET', names, name)
  if type(text) == 'table' then return reason(text, names) end
  local kind = redis.pcall('HLEN', ids)
  if type(kind) == 'table' then return reason(kind, ids) end
  local replaced = find(timeout, names, '', name)
  if (mode == 'NX' and replaced) or (mode == 'XX' and not replaced) then return 2 end

  local kept = keeps_list and list
  local failure, due = store(timeout, kept, delay, { member })
  if failure then return failure end
  if replaced then
    redis.call('ZREM', timeout, replaced)
    if kept then unlist(list, replaced, select(2, read(replaced))) end
  end
  if text then redis.call('HDEL', ids, string.match(text, '%x*$')) end
  redis.call('HSET', names, name, message_id(string.format('%.0f', due), id))
  redis.call('HSET', ids, hex(id), name)
  sweep(timeout, names, ids)
  return publish_head(timeout, list, { [member] = true })
end

local function offer(group, destination, timeout, list, queue_key, names, ids)
  local queue, configured, delays, members = group[1], group[2], group[3], group[4]
  local known = redis.pcall('HMGET', queue_key, 'name', 'format', 'order_list')
  if known.err then return reason(known, queue_key) end
  if known[1] and known[1] ~= queue then return 'BADQUEUE ' .. known[1] end
  local ready = redis.pcall('LLEN', destination)
  if type(ready) ~= 'number' then return reason(ready, destination) end
  local head = redis.pcall('ZRANGE', timeout, '0', '0', 'WITHSCORES')
  if head.err then return reason(head, timeout) end

  local format, order_list = known[2], known[3]
  if configured ~= '' then
    format, order_list = format or configured[1], order_list or not head[1] and configured[2]
  end
  local keeps_list = order_list ~= 'off'
  if not keeps_list then
    local listed = redis.pcall('LLEN', list)
    if type(listed) ~= 'number' then return reason(listed, list) end
  end

  local id = names and string.sub(members[1], 2, 1 + string.byte(members[1], 1))
  if format == 'legacy' then
    for i = 1, #members do members[i] = string.sub(members[i], 2) end
  end

  local outcome
  if names then
    local name, mode = group[5], group[6]
    local member = members[1]
    outcome = offer_named(timeout, list, keeps_list, names, ids, delays, member, id, name, mode)
    if outcome == 2 then return 2 end
  else
    local failure, least = store(timeout, keeps_list and list, delays, members)
    local earliest = tonumber(head[2] or 'inf')
    if failure then
      outcome = failure
    elseif least < earliest then
      publish(list, least)
      outcome = 1
    elseif least == earliest and redis.call('ZRANGE', timeout, 0, 0)[1] ~= head[1] then
      publish(list, least)
      outcome = 1
    else
      outcome = 0
    end
  end
  if type(outcome) == 'number' then
    if not known[1] then redis.call('HSET', queue_key, 'name', queue) end
    if not known[2] and format == 'legacy' then redis.call('HSET', queue_key, 'format', format) end
    if not known[3] and not keeps_list then
      redis.call('HSET', queue_key, 'order_list', order_list)
    end
  end
  return outcome
end

local reply, key = { now_us, 'OK' }, 2
for i = 3, #ARGV do
  local group = cmsgpack.unpack(ARGV[i])
  local size = group[5] and 6 or 4
  reply[i] = offer(group, unpack(KEYS, key, key + size - 1))
  key = key + size
end
return applied(call_key, number, reply)
