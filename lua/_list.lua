-- Finds members in the order list and takes them off.
-- Keeps: only exact members are taken off, whatever the order of the list; the order of our ids
-- only says where to look.
--
-- Costs are counted in elements that LREM passes. LREM compares an element in 20 to 25 ns and
-- copies none: 10 to 20 ms to the middle of a million. LINDEX, LSET and LRANGE skip whole nodes: 18
-- us there, and 180 us if the nodes lie scattered in memory. An element that is read into Lua costs
-- 0.4 us, and a MiB of them 1 to 6 ms, so the list is read in small pages, which are larger where
-- the walk to each is long, and large elements are read one by one.

List.struck = 'delay_broker: struck out' -- no member: no format has this length
List.long = 1000 -- elements: in a shorter list LREM is cheaper than a search
List.reading_max = 400000 -- cost of what is read at a time: 10 ms
List.marking = 100 -- cost of marking an element
List.page_max = 16 -- elements: how large they are is known only afterwards
local far_page_max = 1024 -- the same, where the walk to a page is long: its farthest is looked at
local page_bytes = 131072 -- of a page whose elements are as large as those seen before

-- The cost of reading so many elements with so many bytes.
function List.reading(count, bytes)
  return 10 * count + bytes / 20
end

-- Whether many bytes hide in the list: it takes more memory than if all elements were like those of
-- a sample, so a page anywhere may hold a run of large ones. A call asks once, and does not count
-- what that costs, 0.3 to 2 ms in a list of a million.
local hiding
function List.hides(list, length)
  if hiding ~= nil then return hiding end
  hiding = true
  -- All nodes are asked for their size; an error if this user may not ask.
  local all = redis.pcall('MEMORY', 'USAGE', list, 'SAMPLES', '0')
  if type(all) ~= 'number' then return true end
  local count, bytes = 0, 0
  for i = 1, 31, 2 do
    local at = math.floor(length * i / 32)
    local page = redis.call('LRANGE', list, at, at + 3)
    for j = 1, #page do
      if #page[j] > 4096 then return true end
      count, bytes = count + 1, bytes + #page[j]
    end
  end
  -- A quarter may be chance, or gaps that elements left in their nodes.
  hiding = all - length * (bytes / count + 4) > math.max(8388608, all / 4)
  return hiding
end

-- Reads the elements first..last, from last to first if `back` is true. Calls `seen` with each
-- element and its index; `seen` may return true, which ends the reading, or a cost of its own.
-- Reading also ends when the cost reaches `most`. Returns the first and the last index that were
-- not read, and the cost.
function List.each(list, first, last, back, most, seen)
  local size, cost, length = 4, 0, redis.call('LLEN', list)
  while first <= last and cost < most do
    size = math.min(size, last - first + 1)
    -- A run of large elements may begin behind small ones, so a large page is read only if the
    -- element at its far end allows that size too.
    if size > List.page_max then
      local at = back and last - size + 1 or first + size - 1
      local its = #(redis.call('LINDEX', list, at) or '')
      cost = cost + List.reading(1, its) + List.reach(at, length)
      size = math.max(1, math.min(size, math.floor(page_bytes / its)))
    end
    local from = back and last - size + 1 or first
    local page = redis.call('LRANGE', list, from, from + size - 1)
    if #page == 0 then return first, first - 1, cost end
    local bytes, largest = 0, 1
    for i = back and #page or 1, back and 1 or #page, back and -1 or 1 do
      local element = page[i]
      local its = #element
      bytes = bytes + its
      if its > largest then largest = its end
      local said = seen(element, from + i - 1)
      if said == true then return first, first - 1, cost end
      if said then cost = cost + said end
    end
    local walk = math.min(from, length - from)
    cost = cost + List.reading(#page, bytes) + 0.01 * walk
    if back then last = from - 1 else first = from + size end
    local page_max = math.min(far_page_max, math.floor(walk / 500))
    if page_max <= List.page_max or List.hides(list, length) then page_max = List.page_max end
    size = math.max(1, math.min(page_max, 2 * size, math.floor(page_bytes / largest)))
  end
  return first, last, cost
end

-- The distance from `base` (the two halves of an id) to the member's id, nil if it has no id of
-- ours; without `base`, the two halves. The distance is exact while the ids are less than 24 days
-- apart, since a double has 53 bits.
local function ordinal(member, base)
  local at = string.byte(member, 1) == 8 and #member >= 17 and 2 or 1
  if at == 1 and #member < 16 then return end
  local high, low = struct.unpack('>I4I4', member, at)
  if not base then return { high, low } end
  return (high - base[1]) * 4294967296 + low - base[2]
end

-- The cost of LINDEX or LSET, which walk over nodes from the nearer end.
function List.reach(at, length)
  return 40 + 0.0015 * math.min(at, length - at)
end

-- The ids of the first and the last element if ids grow through the list, as a sample of nine
-- shows; nil if they do not grow, as ids of other programs, or if the elements are large. Then the
-- cost.
local function in_order(list, length)
  local base, before, bytes, back, cost = nil, nil, 0, 0, 0
  for i = 0, 8 do
    local at = math.floor((length - 1) * i / 8)
    local element = redis.call('LINDEX', list, at)
    bytes, cost = bytes + #element, cost + List.reach(at, length) + #element / 20
    base = base or ordinal(element)
    local its = base and ordinal(element, base)
    if before and its and its < before then back = back + 1 end
    -- Ids of several brokers are almost in order.
    if not its or back > 1 or bytes > 262144 then return nil, nil, cost end
    before = its
  end
  return base, before, cost
end

-- How many elements lie between two ids that are one apart, as far as was seen: less than one
-- where some have left the list.
local density = 1

-- The index of the member whose id is at `mine`, found by the ids around it, or nil; and the cost.
-- The index is guessed from the ids at both ends, since offers come at some rate, and within a
-- burst from the last id seen. Every third guess halves the range, which is enough for 33 million
-- elements.
local function locate(list, length, member, mine, base, low, low_is, high, high_is)
  local at, seen, seen_is, steps, cost = nil, nil, nil, 0, 0
  for probe = 1, 75 do
    if low > high then return nil, cost end
    if not at or at < low or at > high then
      local share = 0.5
      if probe % 3 ~= 0 and high_is > low_is then
        share = math.max(0, math.min(1, (mine - low_is) / (high_is - low_is)))
      end
      at = low + math.floor((high - low) * share + 0.5)
    end
    local found = redis.call('LINDEX', list, at)
    cost = cost + List.reach(at, length) + #found / 20
    if found == member then
      if seen then
        density = math.max(0.01, 0.8 * density + 0.2 * (at - seen) / (mine - seen_is))
      end
      return at, cost
    end
    local its = ordinal(found, base)
    if not its then return nil, cost end
    if its < mine then
      low, low_is = at + 1, its
    else
      high, high_is = at - 1, its
    end
    -- Ids of one millisecond count through.
    if steps < 4 and its ~= mine and math.abs(mine - its) < 4096 then
      seen, seen_is, steps = at, its, steps + 1
      local step = math.floor((mine - its) * density + 0.5)
      at = at + (step ~= 0 and step or mine > its and 1 or -1)
    else
      at = nil
    end
  end
  return nil, cost
end

-- Adds to `places` the index of each member that is found by the order of ids, until the cost
-- exceeds `most`. Returns the cost.
local function locate_all(list, length, members, places, most)
  local base, last, cost = in_order(list, length)
  if not base then return cost end
  local order, by_order = {}, {}
  for i = 1, #members do
    local mine = ordinal(members[i], base)
    if mine and not by_order[mine] then
      order[#order + 1] = mine
      by_order[mine] = members[i]
    end
  end
  table.sort(order)
  local low, low_is, found = 0, 0, 0
  for i = 1, #order do
    -- If the list has ids of other programs, more than a few tries are wasted.
    if cost > most or (found == 0 and i > 8) then break end
    local member = by_order[order[i]]
    local at, its = locate(list, length, member, order[i], base, low, low_is, length - 1, last)
    cost = cost + its
    if at then
      places[member], found = at, found + 1
      low, low_is = at + 1, order[i]
    end
  end
  return cost
end

-- Reads the list, and adds to `places` the index of each member that it meets; for members that it
-- did not meet, false if it came to the end of the list. Returns the cost.
local function scan(list, length, members, places)
  local wanted, left = {}, #members
  for i = 1, left do wanted[members[i]] = true end
  local first, last, cost = List.each(list, 0, length - 1, false, 2 * List.reading_max,
    function(element, at)
      if wanted[element] then
        wanted[element] = nil
        places[element] = at
        left = left - 1
        return left == 0
      end
    end)
  if left > 0 and first > last then
    for member in pairs(wanted) do places[member] = false end
  end
  return cost
end

-- Looks for members in the list, as far as that is cheaper than LREM, which searches by itself.
-- Returns { member -> index, or false if it is not in the list }, the cost of the search by ids, at
-- most about `most`, and the cost of reading the list, at most `read_max`. `size`: the bytes that
-- an element may have.
function List.locate(list, length, members, size, most, read_max)
  local places = {}
  if length < (#members < 4 and 10 * List.long or List.long) then return places, 0, 0 end
  local all = List.reading(length, length * size)
  local worth = #members * length / 2
  local readable = all <= read_max and all < worth
  -- If a good part of the list is to be found, reading all of it is cheaper than a search by ids.
  local located, rest = 0, members
  if not readable or 25 * #members < length then
    located, rest = locate_all(list, length, members, places, most), {}
    for i = 1, #members do
      if places[members[i]] == nil then rest[#rest + 1] = members[i] end
    end
  end
  if not readable or all > #rest * length / 2 then return places, located, 0 end
  return places, located, scan(list, length, rest, places)
end

-- Takes the members at these places off the list, { index, member, index, member... }: either marks
-- them and removes them in one pass, or removes each from the end nearer to it. Returns the cost,
-- and the part of it that the members share.
function List.take_off(list, length, places)
  local walk, from, to = 0, length, 0
  for i = 1, #places, 2 do
    local at = places[i]
    walk = walk + math.min(at, length - at)
    from, to = math.min(from, at), math.max(to, at)
  end
  local count = #places / 2
  local near_tail = length - from < to
  local pass = near_tail and length - from or to
  if walk <= pass + List.marking * count then
    for i = 1, #places, 2 do
      redis.call('LREM', list, places[i] > length / 2 and -1 or 1, places[i + 1])
    end
    return walk, 0
  end
  for i = 1, #places, 2 do redis.call('LSET', list, places[i], List.struck) end
  redis.call('LREM', list, near_tail and -count or count, List.struck)
  return pass + List.marking * count, pass
end

-- Takes one copy of each member off the list by LREM, from the end to which its id is nearer, or
-- from `side`, 'front' or 'back', if that is known. Returns the cost, roughly; 0 if the list is
-- short.
function List.remove_each(list, members, side)
  local length = redis.call('LLEN', list)
  local base, last
  if #members > 0 and length >= List.long then
    base = ordinal(redis.call('LINDEX', list, 0))
    last = base and ordinal(redis.call('LINDEX', list, -1), base)
  end
  for i = 1, #members do
    local mine = last and ordinal(members[i], base)
    local near_tail = side == 'back' or (not side and mine and last - mine < mine)
    redis.call('LREM', list, near_tail and -1 or 1, members[i])
  end
  return length < List.long and 0 or #members * length / 2
end

-- Plans how to take one copy of each member off the list, for `strike`. Where only LREM can find
-- members, the plan covers the first `count` of them, which cost about `most` together, and at
-- least one. Writes nothing.
function List.plan(list, members, most)
  local length, bytes = redis.call('LLEN', list), 0
  for i = 1, #members do bytes = bytes + #members[i] end
  local places = List.locate(list, length, members, bytes / math.max(#members, 1), math.huge,
    List.reading_max)
  local planned = { count = #members, length = length, found = {}, missing = {} }
  for i = 1, #members do
    local at = places[members[i]]
    if at then
      planned.found[#planned.found + 1] = at
      planned.found[#planned.found + 1] = members[i]
    elseif at == nil then
      most = most - length / 2
      if most < 0 and i > 1 then
        planned.count = i - 1
        break
      end
      planned.missing[#planned.missing + 1] = members[i]
    end
  end
  return planned
end

-- Carries the plan out.
function List.strike(list, planned)
  if #planned.found > 0 then List.take_off(list, planned.length, planned.found) end
  List.remove_each(list, planned.missing)
end
