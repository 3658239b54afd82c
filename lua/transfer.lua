-- Move the messages that are due to the end of the destination, unreadable ones to quarantine.
--
-- KEYS[1]  list  destination    bare payloads
-- KEYS[2]  zset  timeout        member -> due, Unix ms
-- KEYS[3]  list  list           the members in offer order
-- KEYS[4]  hash  record         true name, pause, order_list, unlisted_*, flag
-- KEYS[5]  hash  names          name -> message id
-- KEYS[6]  hash  ids            hex of the id -> name
-- KEYS[7]  zset  quarantine     unreadable member -> its score
-- KEYS[8]  hash  all            pause of all queues
-- KEYS[9]  none  guard          the channel's name, never a key: see _begin.lua
-- ARGV[1]  text  queue
-- ARGV[2]  int   valid_until_ms
-- ARGV[3]  int   messages_max
-- ARGV[4]  int   bytes_max      of members; one message is moved however large
-- RETURN   { now_us, 'OK' | 'PAUSED' | 'AGAIN', next, paused_until, pause_ended_ms, quarantined,
--            shared, passed, end_us, moved... },
--          { now_us, 'LATE' }, { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
--          AGAIN: this call made a part of a pass over the list, see _pass.lua, and moved nothing.
--          next: score of the head, '' if none. paused_until: '', ms, or -1 (until resumed), of
--          the queue or of all, whichever is later.
--          pause_ended_ms: when the last pause ended, 0 if there was none. quarantined: how many.
--          passed: the cost of the list, in elements that LREM would pass; shared: the part of it
--          that would not grow with more messages.
--          end_us: TIME at the end; now_us if time stands still in a script.
--          moved: score, count, score, count... of the messages that reached the destination, in
--          its order; score, id bytes of a message that carries the flag
-- COST     O(log pending) for each message while the list is in due order, or if none is kept; else
--          at most 20 ms for the list, whatever is in it: the call moves fewer messages, or a pass
--          over the list goes before, one part in each call. If nothing is due, nothing is written

local destination, timeout, list, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local names, ids, quarantine, all = KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local valid_until_ms = tonumber(ARGV[2])
local messages_max, bytes_max = tonumber(ARGV[3]), tonumber(ARGV[4])

local now_us = Begin.now()
if now_us / 1000 > valid_until_ms then return { now_us, 'LATE' } end
-- It goes on if the keys of the names hold another type, and if the quarantine does, as long as
-- nothing has to go there.
local kinds = { timeout, 'zset', destination, 'list', list, 'list' }
local queue, refused = Begin.queue(now_us, record, ARGV[1], kinds)
if refused then return refused end

local of_all = redis.pcall('HGET', all, 'paused_until')
local paused_until, pause_ended_ms = Pause.of(queue.paused_until, of_all, now_us / 1000)
local status = paused_until == '' and 'OK' or 'PAUSED'
local passed, shared = 0, 0

-- How many of the first members have left the list in an earlier call.
local unlisted, again = 0, false
if queue.keeps_list and queue.unlisted_until then
  unlisted, again, passed = Pass.go_on(timeout, list, queue, status == 'PAUSED')
  if again then status = 'AGAIN' end
end

-- The due members have the ranks 0..due-1. They are read in chunks, of one at first, then twice as
-- many each time: the limit in bytes must be noticed before much is read, and the next members may
-- be larger than those before.
local now_ms, pending, all_due = string.format('%.3f', now_us / 1000), 0, 0
if status == 'OK' then
  all_due = redis.call('ZCOUNT', timeout, '-inf', now_ms)
  pending = redis.call('ZCARD', timeout)
end
local due = math.min(all_due, messages_max)
if unlisted > 0 then due = math.min(due, unlisted) end
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
  chunk = math.max(1, math.min(2 * chunk, 16, math.floor((bytes_max - bytes) / largest)))
end

-- The first `run` entries of the list leave it: members that are moved, and stale entries, which
-- are not pending and would only be in the way. The first `in_order` of them are in due order; for
-- each of the others `run_of` holds the number of the member, 0 for a stale entry. Then `number_of`
-- holds the members that were not met. A page is read only if its last entry leaves the list, since
-- entries that stay may be large.
local run, in_order, run_of, number_of = 0, 0, {}, nil
local function another_order()
  in_order, number_of = run, {}
  for i = run + 1, taken do number_of[members[i]] = i end
end

local function read_run()
  local met, size, stale_max, stays = 0, 1, 64, false
  local most = math.max(1, math.min(64, math.floor(65536 / largest)))
  while met < taken and not stays do
    size = math.min(size, most, taken - met)
    local last = size > 1 and redis.call('LINDEX', list, run + size - 1)
    local goes = last
    if number_of then goes = number_of[last] elseif last then goes = last == members[run + size] end
    if size == 1 or goes then
      local page, first = redis.call('LRANGE', list, run, run + size - 1), 1
      stays = #page < size
      if not number_of then
        local met_before, all = met, members
        while page[first] and page[first] == all[met_before + first] do first = first + 1 end
        run, met = run + first - 1, met + first - 1
        if first <= #page then another_order() end
      end
      for i = first, #page do
        local entry = page[i]
        local number = number_of[entry]
        if number then
          number_of[entry] = nil
          met = met + 1
        else
          stays = stale_max == 0 or redis.call('ZSCORE', timeout, entry)
          if stays then break end
          stale_max = stale_max - 1
        end
        run = run + 1
        run_of[run] = number or 0
      end
      size = 2 * size
    else
      size = last and #last < 65536 and math.floor(size / 2) or 1
    end
  end
  if not number_of and (met < taken or redis.call('LLEN', list) - run > pending - taken) then
    another_order()
  end
  -- Stale entries behind the run go too if more is listed than is pending, since the next transfer
  -- may be far away.
  local moved = {}
  for i = 1, met == taken and number_of and taken or 0 do moved[members[i]] = true end
  while met == taken and number_of and stale_max > 0 do
    local entry = redis.call('LINDEX', list, run)
    if not entry or (redis.call('ZSCORE', timeout, entry) and not moved[entry]) then break end
    run, stale_max = run + 1, stale_max - 1
    run_of[run] = 0
  end
end

-- Finds what else has to leave the list: `off` gets places, { index, member, index, member... },
-- and `missing` the members that only LREM can find. Fewer members are taken if more would cost too
-- much. None is taken if a pass for all due members is cheaper: then that begins.
local length, off, missing = 0, {}, {}
local function find_others()
  local others = {}
  for i = in_order + 1, taken do
    if number_of[members[i]] then others[#others + 1] = members[i] end
  end
  if #others == 0 then return end
  local size, keep = bytes / taken, taken
  local all = List.reading(length, length * size)
  if all > List.reading_max or 25 * #others < length then
    -- The LREM that removes the marked members passes a part of the list besides.
    local most = math.max(350000, List.reading_max - 0.3 * length)
    most = math.max(8, math.floor(most / (8 * (List.reach(length / 4, length) + size / 20))))
    if #others > most then keep = number_of[others[most + 1]] - 1 end
    for i = #others, most + 1, -1 do others[i] = nil end
  end
  -- Reading the list serves only the members that are taken now, a pass serves all that are due.
  local read_max = all_due > 2 * #others and List.reading_max / 4 or List.reading_max
  local places, located, read_for_all =
    List.locate(list, length, others, size, List.reading_max, read_max)
  passed, shared = passed + located + read_for_all, shared + read_for_all
  local missing_max, missed = math.max(1, math.floor(400000 / length)), 0
  for i = 1, #others do
    local at, number = places[others[i]], number_of[others[i]]
    if at == nil then
      missed = missed + 1
      if missed == missing_max + 1 then keep = number - 1 end
      if missed <= missing_max then missing[missed] = others[i] end
    elseif at and number <= keep then
      off[#off + 1] = at
      off[#off + 1] = others[i]
    end
  end
  local all_missed = missed / #others * all_due
  if missed > missing_max and all_missed * length / 2 > Pass.cost(length, all) then
    -- The members at the head of the list go before the pass begins.
    keep = number_of[others[1]] - 1
    if keep == 0 then
      local score = now_ms
      if all_due > Pass.due_max then
        score = redis.call('ZRANGE', timeout, Pass.due_max - 1, Pass.due_max - 1, 'WITHSCORES')[2]
      end
      Pass.begin(record, list, score, length)
      status = 'AGAIN'
    end
    off, missing = {}, {}
  end
  taken = keep
  -- The run ends before the first of its members that is not taken now, which stays in the list.
  local kept = run
  for i = run, in_order + 1, -1 do
    if run_of[i] > keep then kept = i - 1 end
  end
  for i = kept + 1, run do
    if run_of[i] > 0 and run_of[i] <= keep then
      off[#off + 1] = i - 1
      off[#off + 1] = members[run_of[i]]
    end
  end
  run = kept
end

local leaves -- why the whole list goes: 'all' pending messages are moved, or all are 'due'
if queue.keeps_list and status == 'OK' and pending == 0 then
  -- All entries are stale.
  redis.call('UNLINK', list)
elseif taken > 0 and queue.keeps_list and unlisted == 0 then
  if taken == pending then
    leaves = 'all'
  else
    read_run()
    length = redis.call('LLEN', list)
    if number_of and next(number_of) and all_due == pending and length - run >= List.long then
      leaves = 'due'
    elseif number_of then
      find_others()
    end
  end
end

local payloads, poison, pushed = {}, {}, 0
local reply = { now_us, status, '', paused_until, pause_ended_ms, 0, 0, 0, now_us }
local run_at, flag = 0, queue.flag
for i = 1, taken do
  local score, payload, id = scores[i], Member.read(members[i])
  if payload then
    pushed = pushed + 1
    payloads[pushed] = payload
    if flag and string.sub(payload, 1, #flag) == flag then
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

if #poison > 0 then
  local kind = redis.call('TYPE', quarantine).ok
  if kind ~= 'none' and kind ~= 'zset' then return { now_us, 'WRONGTYPE', quarantine } end
end
if taken > 0 then
  -- The write that frees memory goes first: then Redis lets the others follow at its limit.
  redis.call('ZREMRANGEBYRANK', timeout, 0, taken - 1)
  for from = 1, pushed, 1000 do
    redis.call('RPUSH', destination, unpack(payloads, from, math.min(from + 999, pushed)))
  end
  for from = 1, #poison, 1000 do
    redis.call('ZADD', quarantine, unpack(poison, from, math.min(from + 999, #poison)))
  end
  if leaves or not queue.keeps_list then
    -- Where no order list is kept, entries that Redisson adds all the same would stay for ever.
    redis.call('UNLINK', list)
    if leaves == 'due' then Pass.begin(record, list, now_ms, 0) end
  elseif unlisted > 0 then
    if taken == unlisted then Unlisted.forget(record) end
  else
    if #off > 0 then
      local walked, for_all = List.take_off(list, length, off)
      passed, shared = passed + walked, shared + for_all
    end
    passed = passed + List.remove_each(list, missing)
    if run > 0 then redis.call('LTRIM', list, run, -1) end
  end
  if redis.call('EXISTS', ids) == 1 then
    local named = {}
    for i = 1, taken do
      local _, id = Member.read(members[i])
      if id then named[#named + 1] = Member.hex(id) end
    end
    Names.forget(timeout, names, ids, named)
  end
end

reply[3] = Head.score(timeout, redis.call('ZCARD', timeout), math.floor(now_us / 1000))
reply[6] = #poison / 2
reply[7], reply[8] = math.ceil(shared), math.ceil(passed)
if taken > 0 or status == 'AGAIN' then
  reply[9] = Begin.now()
end
return reply
