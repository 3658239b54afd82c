-- Which entries of the order list leave it with the members that a transfer takes, and how.
-- Keeps: a plan may take fewer members than are due; it writes nothing but the notes of a pass and
-- of a search.

local halved_from = 500000 -- elements: a longer list is searched in halves

-- The plan begins as { timeout, list, record, members, taken, pending, all_due, now_ms, bytes,
-- largest }. The first `run` entries of the list leave it: members that are moved, and stale
-- entries, which are not pending and would only be in the way. The first `in_order` of them are in
-- due order; for each of the others `run_of` holds the number of the member, 0 for a stale entry.
-- Then `number_of` holds the members that were not met.
local function another_order(plan)
  local members, number_of = plan.members, {}
  for i = plan.run + 1, plan.taken do number_of[members[i]] = i end
  plan.in_order, plan.number_of = plan.run, number_of
end

-- A page is read only if its last entry leaves the list, since entries that stay may be large.
local function read_run(plan)
  local timeout, list, members, taken = plan.timeout, plan.list, plan.members, plan.taken
  local run, run_of, number_of = 0, plan.run_of, nil
  local met, size, stale_max, stays = 0, 1, 64, false
  local most = math.max(1, math.min(64, math.floor(65536 / plan.largest)))
  while met < taken and not stays do
    size = math.min(size, most, taken - met)
    local last = size > 1 and redis.call('LINDEX', list, run + size - 1)
    local goes = last
    if number_of then goes = number_of[last] elseif last then goes = last == members[run + size] end
    if size == 1 or goes then
      local page, first = redis.call('LRANGE', list, run, run + size - 1), 1
      stays = #page < size
      if not number_of then
        local met_before = met
        while page[first] and page[first] == members[met_before + first] do first = first + 1 end
        run, met = run + first - 1, met + first - 1
        if first <= #page then
          plan.run = run
          another_order(plan)
          number_of = plan.number_of
        end
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
      size = 4 * size
    else
      size = last and #last < 65536 and math.floor(size / 2) or 1
    end
  end
  plan.run = run
  if not number_of
    and (met < taken or redis.call('LLEN', list) - run > plan.pending - taken)
  then
    another_order(plan)
  end
  if met < taken or not plan.number_of then return end
  -- Stale entries behind the run go too if more is listed than is pending, since the next transfer
  -- may be far away.
  local moved = {}
  for i = 1, taken do moved[members[i]] = true end
  while stale_max > 0 do
    local entry = redis.call('LINDEX', list, run)
    if not entry or (redis.call('ZSCORE', timeout, entry) and not moved[entry]) then break end
    run, stale_max = run + 1, stale_max - 1
    run_of[run] = 0
  end
  plan.run = run
end

-- Looks for a member in a list that is too long for one LREM: in one half, and in the next call in
-- the other. A call notes what it found, and the next one removes the member from that end.
-- Returns 'front', 'back' or 'none', which ends the search, or nil: the next call goes on.
local function seek(plan, member)
  local list, record, half = plan.list, plan.record, math.ceil(plan.length / 2)
  local noted, mark = redis.call('HGET', record, 'unlisted_seek') or '', Pass.marker(member)
  local found = string.match(noted, '^%a+')
  -- A write that frees memory goes first: then Redis lets the others follow at its limit.
  redis.call('HDEL', record, 'unlisted_seek')
  if not found or string.sub(noted, #found + 2) ~= mark then found = nil end
  if found == 'front' or found == 'back' then return found end
  plan.passed = plan.passed + half
  local rank = found and -1 or 1
  local at = redis.call('LPOS', list, member, 'RANK', rank, 'MAXLEN', half)
  if not at and found then return 'none' end
  local side = not at and 'behind' or found and 'back' or 'front'
  -- Near an end, it can go in this call.
  if at and math.min(at, plan.length - at) < half / 2 then return side end
  redis.call('HSET', record, 'unlisted_seek', side .. ' ' .. mark)
end

-- The members that were not met: `off` gets places, { index, member, index, member... }, and
-- `missing` the members that only LREM can find. Fewer members are taken if more would cost too
-- much. None is taken if a pass for all due members is cheaper: then that begins.
local function find_others(plan)
  local members, number_of, length = plan.members, plan.number_of, plan.length
  local others = {}
  for i = plan.in_order + 1, plan.taken do
    if number_of[members[i]] then others[#others + 1] = members[i] end
  end
  if #others == 0 then return end
  local size, keep = plan.bytes / plan.taken, plan.taken
  local all = List.reading(length, length * size)
  if all > List.reading_max or 25 * #others < length then
    -- The LREM that removes the marked members passes a part of the list besides.
    local most = math.max(350000, List.reading_max - 0.3 * length)
    most = math.max(8, math.floor(most / (8 * (List.reach(length / 4, length) + size / 20))))
    if #others > most then keep = number_of[others[most + 1]] - 1 end
    for i = #others, most + 1, -1 do others[i] = nil end
  end
  -- Reading the list serves only the members that are taken now, a pass serves all that are due.
  local read_max = plan.all_due > 2 * #others and List.reading_max / 4 or List.reading_max
  local places, located, read_for_all =
    List.locate(plan.list, length, others, size, List.reading_max, read_max)
  plan.passed, plan.shared = located + read_for_all, read_for_all
  local off, missing = {}, {}
  local missing_max, missed = math.max(1, math.floor(400000 / length)), 0
  for i = 1, #others do
    if places[others[i]] == nil then
      missed = missed + 1
      if missed == missing_max + 1 then keep = number_of[others[i]] - 1 end
      if missed <= missing_max then missing[missed] = others[i] end
    end
  end
  local all_missed = missed / #others * plan.all_due
  if missed > missing_max and all_missed * length / 2 > Pass.cost(length, all) then
    -- The members at the head of the list go before the pass begins.
    keep = number_of[others[1]] - 1
    if keep == 0 then
      local score, last = plan.now_ms, Pass.due_max - 1
      if plan.all_due > Pass.due_max then
        score = redis.call('ZRANGE', plan.timeout, last, last, 'WITHSCORES')[2]
      end
      Pass.begin(plan.record, plan.list, score, length)
    end
    missing = {}
  elseif missed > 0 and length > halved_from then
    local before = number_of[missing[1]] - 1
    if before == 0 then plan.side = seek(plan, missing[1]) end
    if not plan.side then keep = before end
    if plan.side ~= 'front' and plan.side ~= 'back' then missing = {} end
  end
  for i = 1, #others do
    local at, number = places[others[i]], number_of[others[i]]
    if at and number <= keep then
      off[#off + 1] = at
      off[#off + 1] = others[i]
    end
  end
  -- The run ends before the first of its members that is not taken now, which stays in the list.
  local run, run_of = plan.run, plan.run_of
  local kept = run
  for i = run, plan.in_order + 1, -1 do
    if run_of[i] > keep then kept = i - 1 end
  end
  for i = kept + 1, run do
    if run_of[i] > 0 and run_of[i] <= keep then
      off[#off + 1] = i - 1
      off[#off + 1] = members[run_of[i]]
    end
  end
  plan.taken, plan.run, plan.off, plan.missing = keep, kept, off, missing
end

-- Completes the plan. Then it takes `taken` members; where that is 0, a pass has begun.
function Leave.plan(plan)
  plan.run, plan.in_order, plan.run_of = 0, 0, {}
  plan.off, plan.missing, plan.passed, plan.shared = {}, {}, 0, 0
  -- Why the whole list goes: 'all' pending messages are moved, or all are 'due'.
  if plan.taken == plan.pending then
    plan.whole = 'all'
    return
  end
  read_run(plan)
  plan.length = redis.call('LLEN', plan.list)
  local others = plan.number_of and next(plan.number_of)
  if others and plan.all_due == plan.pending and plan.length - plan.run >= List.long then
    plan.whole = 'due'
  elseif plan.number_of then
    find_others(plan)
  end
end

-- Carries the plan out.
function Leave.take_off(plan)
  local list = plan.list
  if plan.whole then
    redis.call('UNLINK', list)
    if plan.whole == 'due' then Pass.begin(plan.record, list, plan.now_ms, 0) end
    return
  end
  if #plan.off > 0 then
    local walked, for_all = List.take_off(list, plan.length, plan.off)
    plan.passed, plan.shared = plan.passed + walked, plan.shared + for_all
  end
  plan.passed = plan.passed + List.remove_each(list, plan.missing, plan.side)
  if plan.run > 0 then redis.call('LTRIM', list, plan.run, -1) end
end
