-- Stores the messages of one queue in zset and order list, or nothing of them: offers, and the
-- occurrences of schedules.
-- Keeps: what may fail is called by pcall, so that one unreadable queue fails none of its
-- neighbours in the call.

-- Why something was not stored.
local function reason(reply, key)
  if string.find(reply.err, 'WRONGTYPE', 1, true) then return 'WRONGTYPE ' .. key end
  return string.match(reply.err, '%u%u+ [^\r\n]*') or reply.err
end

-- A score as text, and as a number.
local function score_of(now_ms, delay)
  local due = delay < 0 and math.max(-delay, now_ms) or now_ms + delay
  return string.format('%d', due), due
end

-- Zset and list of one message: nil, or why it was not stored. The list goes first: its refusal,
-- being the first write, leaves nothing behind. Where none is kept (`list` is false) the zset goes
-- first.
local function store_one(timeout, list, score, member)
  local pushed = not list and 0 or redis.pcall('RPUSH', list, member)
  if type(pushed) ~= 'number' then return reason(pushed, list) end
  local added = redis.pcall('ZADD', timeout, 'NX', score, member)
  if added == 1 then return end
  if list then redis.call('RPOP', list) end
  return added == 0 and 'CLASH' or reason(added, timeout)
end

-- The same of several: members[first..last]. Returns the least score, and the first member that
-- has it: by its bytes too, since ids grow.
local function store(timeout, list, now_ms, delays, members, first, last)
  if list then
    local pushed = redis.pcall('RPUSH', list, unpack(members, first, math.min(first + 999, last)))
    if type(pushed) ~= 'number' then return reason(pushed, list) end
    for from = first + 1000, last, 1000 do
      redis.call('RPUSH', list, unpack(members, from, math.min(from + 999, last)))
    end
  end

  local each = type(delays) == 'table' and delays
  local delay, score, due, least, head = nil, nil, nil, math.huge, nil
  local pairs_of, added = {}, 0
  for from = first, last, 500 do
    local to, at = math.min(from + 499, last), 0
    for i = from, to do
      local next_delay = each and each[i - first + 1] or delays
      if next_delay ~= delay then
        delay = next_delay
        score, due = score_of(now_ms, delay)
        if due < least then least, head = due, members[i] end
      end
      pairs_of[at + 1], pairs_of[at + 2] = score, members[i]
      at = at + 2
    end
    local now_added = redis.pcall('ZADD', timeout, 'NX', unpack(pairs_of, 1, at))
    if type(now_added) ~= 'number' then
      if from > first then return 'INTERNAL ' .. reason(now_added, timeout) end
      if list then redis.call('LTRIM', list, 0, first - last - 2) end
      return reason(now_added, timeout)
    end
    added = added + now_added
  end
  if added ~= last - first + 1 then return 'INTERNAL id clash' end
  return nil, least, head
end

-- A named message, which takes the place of the pending one of that name; as `store_one`. `full`:
-- why there is no room for one more. With NX a name that is held until its message is done counts.
function Store.named(timeout, list, names, ids, held, score, member, id, name, mode, full)
  if mode == 'NX' and Held.has(held, name) then return 2 end
  local text = redis.pcall('HGET', names, name)
  if type(text) == 'table' then return reason(text, names) end
  local kind = redis.pcall('HLEN', ids)
  if type(kind) == 'table' then return reason(kind, ids) end
  local replaced = Find.member(timeout, names, '', name)
  if (mode == 'NX' and replaced) or (mode == 'XX' and not replaced) then return 2 end
  if full and not replaced then return full end

  local failure = store_one(timeout, list, score, member)
  if failure then return failure end
  if replaced then
    redis.call('ZREM', timeout, replaced)
    if list then List.remove_each(list, { replaced }) end
  end
  if text then redis.call('HDEL', ids, string.match(text, '%x*$')) end
  redis.call('HSET', names, name, Member.message_id(score, id))
  redis.call('HSET', ids, Member.hex(id), name)

  -- Up to two names of messages that are gone go too: other programs take messages without knowing
  -- names. That nothing is pending at its score says so without reading a member; a name whose
  -- score others share stays until they are gone.
  local some = redis.call('HRANDFIELD', names, 2, 'WITHVALUES')
  for i = 1, #some, 2 do
    local its_score = Find.split(some[i + 1])
    local sharing = its_score and redis.pcall('ZCOUNT', timeout, its_score, its_score)
    if type(sharing) ~= 'number' or sharing == 0 then
      redis.call('HDEL', names, some[i])
      redis.call('HDEL', ids, string.match(some[i + 1], '%x*$'))
    end
  end
end

-- Why it cannot be known whether there is room for so many more, or nil; and why there is none, or
-- nil. `first`: the key of due messages with a priority, which count only where it is told.
function Store.full(settings, timeout, ready, first, more)
  local max = Record.setting(settings, 'max_length') or 0
  if max == 0 then return end
  local length = redis.pcall('ZCARD', timeout)
  if type(length) == 'table' then return reason(length, timeout) end
  local waiting = first and redis.pcall('ZCARD', first) or 0
  length = length + ready + (type(waiting) == 'number' and waiting or 0)
  if length + more > max then return nil, string.format('FULL %d %d %d', length, max, more) end
end

-- One group: its keys begin at keys[key], its members are members[first..last]; `named` is
-- `Store.named`, for a group that has a name. Its outcome, nil if it was stored and that is all. A
-- moment before `now_ms` becomes that. `carries`: 'META' where messages of the group have headers,
-- a TTL or a limit of their own, 'PRIO' where they have a priority; else nil.
function Store.group(keys, key, now_ms, members, first, last, delays, format, order_list, name,
  mode, carries, named)
  local destination, timeout = keys[key], keys[key + 1]
  local list, record = keys[key + 2], keys[key + 3]
  local failed, recorded_name, its_format, listing, settings = Record.for_offer(record)
  if failed then return reason(failed, record) end
  -- The only place that takes a queue's destination for its name.
  local queue_name = destination
  local owner = Record.owner(recorded_name, queue_name)
  if not owner and (format or '') == '' then
    -- Not configured: what is pending is not taken over from the more likely name.
    owner = Record.other_name(queue_name)
    if owner and redis.call('EXISTS', timeout) == 0 then owner = nil end
  end
  if owner and owner ~= queue_name then return 'BADQUEUE ' .. owner end
  if carries then
    local becomes = Record.destination(settings)
    if becomes == 'list' or (carries == 'PRIO' and becomes ~= 'take') then
      return 'DESTINATION ' .. carries
    end
  end
  local ready = redis.pcall('LLEN', destination)
  if type(ready) ~= 'number' and Record.is_stream(settings) then
    ready = redis.pcall('XLEN', destination)
    -- This user may not ask: then nothing is known to be too many.
    if type(ready) ~= 'number' and not string.find(ready.err, 'WRONGTYPE', 1, true) then
      ready = 0
    end
  end
  if type(ready) ~= 'number' then return reason(ready, destination) end
  local full
  if settings then
    local first_key = carries == 'PRIO' and keys[key + (name and 7 or 4)]
    local failure
    failure, full = Store.full(settings, timeout, ready, first_key, last - first + 1)
    if failure or (full and not name) then return failure or full end
  end

  local kept = list
  if listing == 'off' or (order_list == 'off' and not listing) then
    local listed = redis.pcall('LLEN', list)
    if type(listed) ~= 'number' then return reason(listed, list) end
    kept = not listing and redis.call('EXISTS', timeout) == 1 and list
  end

  local id = name and string.sub(members[first], 2, 9)
  if (its_format or format) == 'legacy' then
    for i = first, last do members[i] = string.sub(members[i], 2) end
  end
  local failure, least, head
  if first == last then
    local score
    score, least = score_of(now_ms, delays)
    if name then
      local names, ids, held = keys[key + 4], keys[key + 5], keys[key + 6]
      failure = named(timeout, kept, names, ids, held, score, members[first], id, name, mode, full)
    else
      failure = store_one(timeout, kept, score, members[first])
    end
  else
    failure, least, head = store(timeout, kept, now_ms, delays, members, first, last)
  end
  if failure then return failure end
  if recorded_name ~= queue_name then redis.call('HSET', record, 'name', queue_name) end
  if not its_format and format == 'legacy' then redis.call('HSET', record, 'format', format) end
  if not listing and not kept then redis.call('HSET', record, 'order_list', 'off') end
  if Publish.is_head(timeout, head or members[first]) then
    Publish.score(list, least)
    return 1
  end
end

