-- Move the messages that are due to the end of the destination, unreadable ones to quarantine.
-- Where that is a stream they become entries; what Redis refuses there stays pending.
--
-- KEYS[1]  list  destination    payloads; where only takers have them, each in its envelope; or a
--                               stream, see _stream.lua
-- KEYS[2]  zset  timeout        member -> due, Unix ms
-- KEYS[3]  list  list           the members in offer order
-- KEYS[4]  hash  record         true name, pause, order_list, unlisted_*, flag, settings, tokens
-- KEYS[5]  hash  names          name -> message id
-- KEYS[6]  hash  ids            hex of the id -> name
-- KEYS[7]  zset  quarantine     unreadable member -> its score
-- KEYS[8]  hash  all            pause of all queues
-- KEYS[9]  zset  first          due messages with a priority: see _deliver.lua
-- KEYS[10] hash  held           names that are held until their messages are done: see _held.lua
-- KEYS[11] none  guard          the channel's name, never a key: see _begin.lua
-- ARGV[1]  text  queue
-- ARGV[2]  int   valid_until_ms
-- ARGV[3]  int   messages_max
-- ARGV[4]  int   bytes_max      of members; one message is moved however large
-- RETURN   { now_us, 'OK' | 'PAUSED' | 'AGAIN', next, paused_until, pause_ended_ms, quarantined,
--            shared, passed, end_us, moved... },
--          { now_us, 'LATE' }, { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
--          AGAIN: this call made a part of a pass over the list, see _pass.lua, and moved nothing.
--          next: score of the head, or when the rate of the queue lets it go; '' if none.
--          paused_until: '', ms, or -1 (until resumed), of
--          the queue or of all, whichever is later.
--          pause_ended_ms: when the last pause ended, or what its rate held back was let go; 0 if
--          neither. quarantined: how many.
--          passed: the cost of the list, in elements that LREM would pass; shared: the part of it
--          that would not grow with more messages.
--          end_us: TIME at the end; now_us if time stands still in a script.
--          moved: score, count, score, count... of the messages that reached the destination, in
--          its order; score, id bytes of a message that carries the flag; at the end '' and how
--          many have expired, if any
-- COST     O(log pending) for each message while the list is in due order, or if none is kept; else
--          at most 20 ms for the list, whatever is in it: the call moves fewer messages, or a pass
--          over the list goes before, one part in each call. If nothing is due, nothing is written

local destination, timeout, list, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local names, ids, quarantine, all = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local first, held = KEYS[9], KEYS[10]
local valid_until_ms = tonumber(ARGV[2])
local messages_max, bytes_max = tonumber(ARGV[3]), tonumber(ARGV[4])

local now_us = Begin.now()
if now_us / 1000 > valid_until_ms then return { now_us, 'LATE' } end
-- It goes on if the keys of the names hold another type, and if the quarantine does, as long as
-- nothing has to go there.
local kinds = { timeout, 'zset', destination, 'list', list, 'list' }
local queue, refused = Begin.queue(now_us, record, ARGV[1], kinds)
if refused then return refused end

local streams = Record.is_stream(queue.settings)
if streams then
  local kind = redis.call('TYPE', destination).ok
  if kind == 'list' then return { now_us, 'WRONGTYPE', destination } end
end

local of_all = redis.pcall('HGET', all, 'paused_until')
local paused_until, pause_ended_ms = Pause.of(queue.paused_until, of_all, now_us / 1000)
local status = paused_until == '' and 'OK' or 'PAUSED'

-- How many of the first members have left the list in an earlier call.
local passed, shared, unlisted = 0, 0, 0
if queue.keeps_list and queue.unlisted_until then
  late()
  local again
  unlisted, again, passed = Pass.go_on(timeout, list, queue, status == 'PAUSED')
  if again then status = 'AGAIN' end
end

-- The due members have the ranks 0..due-1. They are read in chunks, of one at first, then four
-- times as many: the limit in bytes must be noticed before much is read, and the next members may
-- be larger than those before.
local now_ms, pending = string.format('%.3f', now_us / 1000), redis.call('ZCARD', timeout)
local all_due = status == 'OK' and redis.call('ZCOUNT', timeout, '-inf', now_ms) or 0
local due = math.min(all_due, messages_max)
if unlisted > 0 then due = math.min(due, unlisted) end
local tokens, came_ms
if (Record.setting(queue.settings, 'rate') or 0) > 0 then
  late()
  tokens, came_ms = Rate.tokens(queue, now_us / 1000)
  due = math.min(due, math.floor(tokens))
  pause_ended_ms = math.max(pause_ended_ms, math.ceil(came_ms))
end
local members, scores, taken, bytes, chunk, largest = {}, {}, 0, 0, 1, 1
while taken < due do
  local found = redis.call('ZRANGE', timeout, taken, math.min(taken + chunk, due) - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local size = #found[i]
    bytes, largest = bytes + size, math.max(largest, size)
    if bytes > bytes_max and taken > 0 then
      bytes, due = bytes - size, taken
      break
    end
    taken = taken + 1
    members[taken], scores[taken] = found[i], found[i + 1]
  end
  if bytes >= bytes_max then due = taken end
  chunk = math.max(1, math.min(4 * chunk, 16, math.floor((bytes_max - bytes) / largest)))
end

local plan -- of what leaves the list
if queue.keeps_list and status == 'OK' and pending == 0 then
  -- All entries are stale.
  redis.call('UNLINK', list)
elseif taken > 0 and queue.keeps_list and unlisted == 0 then
  late()
  plan = {
    timeout = timeout, list = list, record = record, members = members, taken = taken,
    pending = pending, all_due = all_due, now_ms = now_ms, bytes = bytes, largest = largest,
  }
  Leave.plan(plan)
  taken = plan.taken
  if taken == 0 then status = 'AGAIN' end
end

-- Few queues have another destination than a list, and few payloads an envelope.
local made_for = {}
local function to_takers()
  late()
  made_for = {
    settings = queue.settings, now_ms = now_us / 1000, ids = ids, members = members, taken = taken,
  }
  return Deliver.to_takers(made_for)
end
local function to_entries()
  late()
  return function(_, score, payload, id)
    return Stream.fields_of(payload, id, score, now_us / 1000)
  end
end
local function content(payload)
  late()
  return Envelope.content(payload)
end

local byte = string.byte
local becomes = taken > 0 and queue.settings and Record.destination(queue.settings)
local made = becomes == 'take' and to_takers() or becomes == 'stream' and to_entries()
-- payloads: or the fields of entries; places: of the members that these are of.
local payloads, places, poison, pushed, firsts, expired = {}, {}, {}, 0, {}, 0
local reply = { now_us, status, '', paused_until, pause_ended_ms, 0, 0, 0, now_us }
local run_at, flag = 0, queue.flag
for i = 1, taken do
  local score, payload, id = scores[i], Member.read(members[i])
  if payload then
    local carried, place = payload, nil
    if byte(payload, 1) == 0 and (flag or not made) then carried = content(payload) end
    if made then payload, place = made(i, score, payload, id) else payload = carried end
    if place then
      local order = string.sub(string.rep('\0', 8) .. id, -8)
      firsts[#firsts + 1] = { place, order .. payload, payload }
    elseif payload then
      pushed = pushed + 1
      payloads[pushed] = payload
      if streams then places[pushed] = i end
    end
    if not payload then
      expired = expired + 1
    elseif flag and string.sub(carried, 1, #flag) == flag then
      reply[#reply + 1], reply[#reply + 2], run_at = score, id, 0
    elseif reply[run_at] == score then
      reply[run_at + 1] = reply[run_at + 1] + 1
    else
      run_at = #reply + 1
      reply[run_at], reply[run_at + 1] = score, 1
    end
  else
    poison[#poison + 1], poison[#poison + 2] = score, members[i]
  end
end
if expired > 0 then reply[#reply + 1], reply[#reply + 2] = '', expired end

if #firsts > 0 then
  local kind = redis.call('TYPE', first).ok
  if kind ~= 'none' and kind ~= 'zset' then return { now_us, 'WRONGTYPE', first } end
end
if #poison > 0 then
  local kind = redis.call('TYPE', quarantine).ok
  if kind ~= 'none' and kind ~= 'zset' then return { now_us, 'WRONGTYPE', quarantine } end
end
local failed_at, failed
if taken > 0 then
  -- The write that frees memory goes first: then Redis lets the others follow at its limit.
  redis.call('ZREMRANGEBYRANK', timeout, 0, taken - 1)
  for i = 1, #firsts do
    -- The same one twice, which others can write, goes the other way.
    if redis.call('ZADD', first, 'NX', firsts[i][1], firsts[i][2]) == 0 then
      pushed = pushed + 1
      payloads[pushed] = firsts[i][3]
    end
  end
  if streams then
    late()
    failed_at, failed = Stream.deliver(destination, payloads)
    failed_at, pushed = places[failed_at], 0
  end
  for from = 1, pushed, 1000 do
    redis.call('RPUSH', destination, unpack(payloads, from, math.min(from + 999, pushed)))
  end
  for from = 1, #poison, 1000 do
    redis.call('ZADD', quarantine, unpack(poison, from, math.min(from + 999, #poison)))
  end
  -- Entries that Redisson adds all the same would stay for ever.
  if not queue.keeps_list then redis.call('UNLINK', list) end
end
if taken > 0 and plan then
  late()
  Leave.take_off(plan)
elseif unlisted > 0 and taken == unlisted then
  late()
  Unlisted.forget(record)
end
if failed then
  late()
  Stream.undo(timeout, queue.keeps_list and list, members, scores, failed_at, taken)
end
if taken > 0 and redis.call('EXISTS', ids) == 1 then
  late()
  local named = {}
  for i = 1, failed and failed_at - 1 or taken do
    local _, id = Member.read(members[i])
    if id then named[#named + 1] = Member.hex(id) end
  end
  Names.forget(timeout, names, ids, named)
end
if made_for.held and #made_for.held > 0 then
  late()
  Held.write(held, made_for.held)
end
-- The stream's last id is the greatest that there is, or this user may not add to it.
if failed then return failed end
if plan then passed, shared = passed + plan.passed, plan.shared end

reply[3] = Head.score(timeout, pending - taken, math.floor(now_us / 1000))
if tokens then
  late()
  if taken > 0 then Rate.note(queue, tokens - taken, now_us / 1000) end
  local next_ms = math.ceil(Rate.next_ms(queue, tokens - taken, now_us / 1000))
  local head = tonumber(reply[3])
  if head and head < next_ms then reply[3] = string.format('%d', next_ms) end
end
reply[6] = #poison / 2
reply[7], reply[8] = math.ceil(shared), math.ceil(passed)
if taken > 0 or status == 'AGAIN' then
  reply[9] = Begin.now()
end
return reply
