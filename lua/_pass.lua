-- One pass over a long order list for many messages. It is made in parts, one in each transfer. The
-- messages that are due when it begins leave the list, and are delivered after it.
-- Keeps: the pass goes from the end to the front, so an entry that others take out meanwhile moves
-- no other entry past it; entries that others append meanwhile are looked at before each delivery.

local part_max = 400000 -- cost of one script, see _list.lua: 10 ms
-- Cost of reading that each part may make, although the first members and the walk to its place may
-- use all of `part_max`: with less, most of a script over a long list would not go to the reading,
-- and messages would become due faster than passes serve them.
local reading_min = 0.375 * part_max
Pass.due_max = 6000 -- messages of one pass; more if they share the score of the last one
local appended_max = 10000 -- elements that are looked at in one script
local marker_size = 24 -- bytes of a member that tell it from others: its id and more

function Pass.marker(element)
  return string.sub(element, 1, marker_size)
end

-- Notes that the first `count` entries of the list were looked at, with the first bytes of the last
-- of them and of some before it, ever further apart, since others may take out any of them.
local function looked_at(record, list, count)
  local noted, at, step = { count }, count - 1, 1
  while at >= 0 and #noted <= 12 do
    noted[#noted + 1] = Pass.marker(redis.call('LINDEX', list, at))
    at, step = at - step, 2 * step
  end
  redis.call('HDEL', record, 'unlisted_tail')
  redis.call('HSET', record, 'unlisted_tail', cmsgpack.pack(noted))
end

-- How many entries of the list were looked at, according to the note; nil if none of the noted
-- entries is left.
local function known(list, length, noted)
  local readable, all = pcall(cmsgpack.unpack, noted or '')
  local count = readable and type(all) == 'table' and tonumber(all[1])
  if not count or count ~= count then return end
  if count < 1 then return 0 end
  local markers, found = {}, nil
  for i = 2, #all do markers[tostring(all[i])] = true end
  count = math.min(math.floor(count), length)
  local first, last = math.max(0, count - 3000), count - 1
  List.each(list, first, last, true, math.huge, function(element, at)
    if markers[Pass.marker(element)] then found = at + 1 end
    return found ~= nil
  end)
  return found or (length == 0 and 0) or nil
end

-- Whether an entry is to leave the list, and the cost of the question. It leaves if it is not
-- pending, or if its score is at most `score` and above `after`.
local function goes(timeout, element, score, after)
  local its = tonumber(redis.call('ZSCORE', timeout, element) or nil)
  return not its or (its <= score and not (after and its <= after)), 40
end

-- Notes that the messages with scores up to `score` are to leave the list, which has `length`
-- entries; 0: the list is empty now.
function Pass.begin(record, list, score, length)
  Unlisted.forget(record)
  redis.call('HSET', record, 'unlisted_until', score)
  if length > 0 then redis.call('HSET', record, 'unlisted_from', length) end
  looked_at(record, list, length)
end

-- Takes entries off that were appended meanwhile and are to leave the list. Returns true once all
-- appended entries were looked at, nil if it cannot tell which they are; and the cost.
local function look_behind(timeout, list, record, score, after, noted)
  local length = redis.call('LLEN', list)
  local count = known(list, length, noted)
  if not count then return nil, 0 end
  if count == length then return true, 0 end
  local off, last = {}, math.min(length, count + appended_max) - 1
  local first, _, cost = List.each(list, count, last, false, part_max, function(element, at)
    local leaves, its_cost = goes(timeout, element, score, after)
    if leaves then
      off[#off + 1] = at
      off[#off + 1] = element
    end
    return its_cost
  end)
  -- A write that frees memory goes first: then Redis lets the others follow at its limit.
  redis.call('HDEL', record, 'unlisted_tail')
  if #off > 0 then cost = cost + List.take_off(list, length, off) end
  looked_at(record, list, first - #off / 2)
  return first == length, cost
end

-- The first `count` members as a set, nil if they are too many or too large; and the cost.
local function first_members(timeout, count)
  local members, bytes, from, size, largest = {}, 0, 0, 1, 1
  while from < count do
    if count > 1.5 * Pass.due_max or bytes > 1048576 then return nil, 0 end
    local page = redis.call('ZRANGE', timeout, from, math.min(from + size, count) - 1)
    for i = 1, #page do
      members[page[i]] = true
      bytes, largest = bytes + #page[i], math.max(largest, #page[i])
    end
    local size_max = math.min(List.page_max, math.floor(65536 / largest))
    from, size = from + size, math.max(1, math.min(2 * size, size_max))
  end
  return members, List.reading(count, bytes)
end

-- The cost of a whole pass over a list whose reading costs `all`: each part also walks to its
-- place, a quarter of the list on average.
function Pass.cost(length, all)
  return all * part_max / math.max(part_max - length / 4, reading_min)
end

-- Makes one part of the pass, from the entry before `from` towards the front; those behind were
-- looked at. `count` members are due. Returns the cost.
local function pass_on(timeout, list, record, score, count, from)
  local length, off = redis.call('LLEN', list), {}
  from = math.min(from, length)
  local members, cost = first_members(timeout, count)
  local most = math.max(part_max - cost - math.min(from, length - from), reading_min)
  local _, last, reading_cost = List.each(list, 0, from - 1, true, most, function(element, at)
    local its_cost = 0
    local leaves = members and members[element]
    if not members then leaves, its_cost = goes(timeout, element, score) end
    if leaves then
      off[#off + 1] = at
      off[#off + 1] = element
      its_cost = its_cost + List.marking + List.reach(at, length)
    end
    return its_cost
  end)
  redis.call('HDEL', record, 'unlisted_from')
  if last >= 0 then redis.call('HSET', record, 'unlisted_from', last + 1) end
  if #off > 0 then
    cost = cost + List.take_off(list, length, off)
    looked_at(record, list, length - #off / 2)
  end
  return cost + reading_cost
end

-- Lists some members again that had left the list, in due order. Members that share a score are
-- listed together, so that a score says how far this came. Returns the cost.
local function list_some(timeout, list, record, count, after)
  local from = after and redis.call('ZCOUNT', timeout, '-inf', after) or 0
  local last_score, size, cost, upto = nil, 1, 0, count
  -- A write that frees memory goes first, as above.
  redis.call('HDEL', record, 'unlisted_after')
  while from < upto do
    local found = redis.call('ZRANGE', timeout, from, math.min(from + size, upto) - 1, 'WITHSCORES')
    if #found == 0 then break end
    local members = {}
    for i = 1, #found, 2 do
      members[#members + 1] = found[i]
      cost = cost + List.reading(2, #found[i])
    end
    last_score = found[#found]
    redis.call('RPUSH', list, unpack(members))
    from, size = from + #members, math.min(2 * size, List.page_max)
    if cost > part_max / 2 then
      upto = math.min(upto, redis.call('ZCOUNT', timeout, '-inf', last_score))
    end
  end
  if from >= count then
    Unlisted.forget(record)
  else
    redis.call('HSET', record, 'unlisted_after', last_score)
    looked_at(record, list, redis.call('LLEN', list))
  end
  return cost
end

-- Reads what the record says of a pass, and does the next part of the work. A paused queue is
-- listed again. Returns how many of the first members have left the list, whether the work was
-- enough for one call, and the cost.
function Pass.go_on(timeout, list, queue, paused)
  local record, score = queue.key, Unlisted.score(queue.unlisted_until)
  local recorded =
    redis.call('HMGET', record, 'unlisted_from', 'unlisted_after', 'unlisted_tail')
  local from, after = Unlisted.score(recorded[1]), Unlisted.score(recorded[2])
  local text = score and string.format('%.17g', score)
  local count = score and redis.call('ZCOUNT', timeout, '-inf', text) or 0
  local damaged = (recorded[1] and not from) or (recorded[2] and not after)
  local seen, cost = nil, 0
  if count > 0 and not damaged then
    seen, cost = look_behind(timeout, list, record, score, after, recorded[3])
  end
  if seen == nil then
    Unlisted.forget(record)
    return 0, false, cost
  elseif not seen then
    return 0, true, cost
  elseif from then
    return 0, true, cost + pass_on(timeout, list, record, score, count, math.floor(from))
  elseif paused or after then
    after = after and string.format('%.17g', after)
    return 0, true, cost + list_some(timeout, list, record, count, after)
  end
  return count, false, cost
end
