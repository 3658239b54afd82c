-- Streams: a due message becomes an entry, and an entry that no consumer handled comes again as a
-- new one.
-- Keeps: of an entry that comes again all fields stay, but its attempt; nothing is taken out of a
-- stream before it is somewhere else, or Redis let it be added there.
--
--   payload   bytes  of the message
--   id        16 hexadecimal digits, the same through all attempts
--   due       Unix ms
--   attempt   which one this is; no such field: the first
--   limit     deliveries that count, of a message that has a limit of its own
--   h.<name>  a header
--
-- A message that waits for a retry or is dead is kept as of queues that are lists (see _lease.lua),
-- under the 8 bytes of its id and the group that it is for; `taken` has the fields as one msgpack
-- array. The retries of one of several groups are entries of a stream of its own, so that the
-- others do not see them.

Stream.fields_max = 3900 -- of an entry: Lua takes no more in one call than twice as many values
local headers_max = 1000
-- The second half of the id of a retry in a stream of its own: so large that it is never that of an
-- entry in the other stream too.
local sequence_min = 1000000000

-- The reply that refuses a call about a queue that has no stream, or a key of another type in its
-- place; or nil.
function Stream.refusal(now_us, queue, destination)
  if not Record.is_stream(queue.settings) then return { now_us, 'NOSTREAM' } end
  local kind = redis.call('TYPE', destination).ok
  if kind ~= 'none' and kind ~= 'stream' then return { now_us, 'WRONGTYPE', destination } end
end

-- The fields of a message that is due, or nothing if it has expired.
function Stream.fields_of(payload, id, due, now_ms)
  local start, map = Envelope.open(payload)
  if not map or map.h and #map.h > headers_max then
    return { 'payload', payload, 'id', Member.hex(id), 'due', due }
  end
  if map.t and tonumber(due) + map.t <= now_ms then return end
  payload = string.sub(payload, start)
  local fields = { 'payload', payload, 'id', Member.hex(map.i or id), 'due', due }
  if map.l then
    fields[#fields + 1], fields[#fields + 2] = 'limit', string.format('%d', map.l)
  end
  for i = 1, #(map.h or {}), 2 do
    fields[#fields + 1], fields[#fields + 2] = 'h.' .. map.h[i], map.h[i + 1]
  end
  return fields
end

-- Adds entries of these fields. Where Redis refuses one: which, and the error.
function Stream.deliver(stream, entries)
  for i = 1, #entries do
    local added = redis.pcall('XADD', stream, '*', unpack(entries[i]))
    if type(added) == 'table' and added.err then return i, { err = added.err } end
  end
end

-- Puts back what Redis did not take, from this place on.
function Stream.undo(timeout, list, members, scores, first, taken)
  for i = first, taken do
    if Member.parts(members[i]) then
      redis.call('ZADD', timeout, scores[i], members[i])
      if list then redis.call('RPUSH', list, members[i]) end
    end
  end
end

-- Names and values that stand in turn, by name.
function Stream.by_name(flat)
  local found = {}
  for i = 1, #flat, 2 do found[flat[i]] = flat[i + 1] end
  return found
end

-- The groups of a stream by name, each with what Redis tells of it; and how many there are.
-- Versions of Redis differ in what they tell and in which order.
function Stream.groups(stream)
  local found = redis.pcall('XINFO', 'GROUPS', stream)
  local groups = {}
  if found.err then return groups, 0 end
  for i = 1, #found do
    local group = Stream.by_name(found[i])
    groups[group.name] = group
  end
  return groups, #found
end

-- Makes a group that reads from the first entry on, and the stream, unless they are there.
function Stream.make(stream, group)
  redis.pcall('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
end

-- Where entries of a group come again, and whether that is a stream of its own, which is made if it
-- is not there: retries are the affair of one group. `count`: the groups of the destination.
function Stream.target(destination, again, group, count)
  if count <= 1 then return destination, false end
  if not Stream.groups(again)[group] then Stream.make(again, group) end
  return again, true
end

-- The two numbers of an entry's id, as text.
local function halves(id) return string.match(id, '^(%d+)%-(%d+)$') end

local function is_less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

-- Whether an entry comes before another one. Ids are larger than a number of Lua can be.
function Stream.precedes(a, b)
  local a_ms, a_sequence = halves(a)
  local b_ms, b_sequence = halves(b)
  if a_ms ~= b_ms then return is_less(a_ms, b_ms) end
  return is_less(a_sequence, b_sequence)
end

-- The least id behind this one, or itself where that is not to be computed.
function Stream.after(id)
  local ms, sequence = halves(id)
  if #sequence > 15 then return id end
  return ms .. '-' .. string.format('%.0f', sequence + 1)
end

-- Of an entry of another program: 8 bytes of the ms and the number of its own id.
local function own_id(entry_id)
  local ms, sequence = halves(entry_id)
  ms, sequence = tonumber(ms) % 2 ^ 48, tonumber(sequence) % 65536
  local low = (ms % 65536) * 65536 + sequence
  return struct.pack('>I4I4', math.floor(ms / 65536), low)
end

-- Reads the fields of an entry: its attempt, the 8 bytes of its id, its own limit.
function Stream.read(entry_id, fields)
  local found = Stream.by_name(fields)
  local attempt = tonumber(string.match(found.attempt or '', '^%d+$')) or 1
  attempt = math.max(1, math.min(attempt, 1e9))
  local limit = tonumber(string.match(found.limit or '', '^%d+$'))
  local digits = found.id and #found.id == 16 and string.match(found.id, '^%x+$')
  if digits then
    local function byte(pair) return string.char(tonumber(pair, 16)) end
    local bytes = string.gsub(digits, '..', byte)
    return attempt, bytes, limit
  end
  return attempt, own_id(entry_id), limit
end

-- The fields for the next attempt.
local function fields_again(fields, id, attempt)
  local again, has_id = {}, false
  for i = 1, #fields, 2 do
    if fields[i] ~= 'attempt' then
      again[#again + 1], again[#again + 2] = fields[i], fields[i + 1]
    end
    has_id = has_id or fields[i] == 'id'
  end
  if not has_id then again[#again + 1], again[#again + 2] = 'id', Member.hex(id) end
  if attempt > 1 then
    again[#again + 1], again[#again + 2] = 'attempt', string.format('%d', attempt)
  end
  return again
end

-- Adds an entry that comes again, the `number`th of this call. The error if Redis refuses it.
-- `own`: to a stream of its own group.
function Stream.add_again(stream, own, now_us, number, fields, id, attempt)
  local again = fields_again(fields, id, attempt)
  local added
  if own then
    local sequence = sequence_min + (now_us % 1000) * 1000000 + number
    local entry_id = string.format('%.0f-%.0f', math.floor(now_us / 1000), sequence)
    added = redis.pcall('XADD', stream, entry_id, unpack(again))
  end
  -- Behind an id that is ahead of the clock Redis counts on from that.
  if not own or type(added) == 'table' and added.err then
    added = redis.pcall('XADD', stream, '*', unpack(again))
  end
  return type(added) == 'table' and added.err or nil
end

-- Keeps a message to be retried, or dead.
function Stream.hold(keys, place, moment, id, group, fields, tries, entry_id)
  -- Another program may use an id twice: then it is that of its entry, or one near by.
  if Lease.is_taken(keys.taken, id .. group) then id = own_id(entry_id) end
  while Lease.is_taken(keys.taken, id .. group) do
    local high, low = struct.unpack('>I4I4', id)
    id = struct.pack('>I4I4', high, (low + 1) % 4294967296)
  end
  local member = id .. group
  redis.call('HSET', keys.taken, member, cmsgpack.pack(fields))
  redis.call('ZADD', keys[place], string.format('%.0f', moment), member)
  Lease.note_tries(keys.tries, member, unpack(tries))
end

-- The fields of what is kept, or nil: somebody deleted them, or wrote others.
function Stream.held(taken, member)
  local packed = redis.call('HGET', taken, member)
  local read, fields = pcall(cmsgpack.unpack, packed or '')
  if not packed or not read or type(fields) ~= 'table' then return end
  if #fields == 0 or #fields % 2 == 1 or #fields > 2 * Stream.fields_max then return end
  for i = 1, #fields do if type(fields[i]) ~= 'string' then return end end
  return fields
end

-- The payload among fields; '' where another program wrote none.
function Stream.payload(fields)
  for i = 1, #(fields or {}), 2 do
    if fields[i] == 'payload' then return fields[i + 1] end
  end
  return ''
end

-- Whether there is no entry, and none that a group has not acknowledged.
function Stream.is_done(stream)
  if redis.call('XLEN', stream) > 0 then return false end
  for _, group in pairs((Stream.groups(stream))) do
    if group.pending ~= 0 then return false end
  end
  return true
end
