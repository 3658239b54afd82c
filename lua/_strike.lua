-- Takes many members off the order list. Uses _member.lua and _find.lua.
-- Keeps: only exact members go, whatever the order of the list; that of our ids only says where to
-- look. LREM compares every element it passes, 20 ns each, and so takes 13 ms in the middle of a
-- million; LINDEX and LSET skip whole nodes, 18 us there. So many are found by their ids, marked
-- where they stand, and go in one pass.

local struck = 'delay_broker: struck out' -- no member: neither format has this length
local long = 1000 -- elements: below it LREM is cheaper
local scanned_max, scanned_bytes_max = 25000, 8388608 -- elements, bytes: 12 ms

-- How far the member's id is from `base` (two halves of an id), nil if it has no id of ours. Exact
-- while the two are less than 24 days apart: a double has 53 bits.
local function ordinal(member, base)
  local at = string.byte(member, 1) == 8 and #member >= 17 and 2 or 1
  if at == 1 and #member < 16 then return end
  local high, low = struct.unpack('>I4I4', member, at)
  if not base then return { high, low } end
  return (high - base[1]) * 4294967296 + low - base[2]
end

-- Elements between two ids that are one apart, as seen last: less than one where some are gone.
local density = 1

-- The index of the member whose id is at `mine`, by the ids around it, or nil. Guessed from those
-- at both ends, since offers come at some rate, and within one of their bursts from the last one
-- seen; every third time by halving, which is enough for 33 million elements.
local function locate(list, member, mine, base, low, low_is, high, high_is)
  local at, seen, seen_is, steps = nil, nil, nil, 0
  for probe = 1, 75 do
    if low > high then return end
    if not at or at < low or at > high then
      local share = 0.5
      if probe % 3 ~= 0 and high_is > low_is then
        share = math.max(0, math.min(1, (mine - low_is) / (high_is - low_is)))
      end
      at = low + math.floor((high - low) * share + 0.5)
    end
    local found = redis.call('LINDEX', list, at)
    if found == member then
      if seen then
        density = math.max(0.01, 0.8 * density + 0.2 * (at - seen) / (mine - seen_is))
      end
      return at
    end
    local its = ordinal(found, base)
    if not its then return end
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
end

-- The places of the members in the list by their ids, and the members that these do not find.
local function located(list, length, members)
  local places, missing = {}, {}
  local base = ordinal(redis.call('LINDEX', list, 0))
  local last = base and ordinal(redis.call('LINDEX', list, -1), base)
  local order, by_order = {}, {}
  for i = 1, #members do
    local mine = last and ordinal(members[i], base)
    if mine and not by_order[mine] then
      order[#order + 1] = mine
      by_order[mine] = members[i]
    else
      missing[#missing + 1] = members[i]
    end
  end
  table.sort(order)
  local low, low_is = 0, 0
  for i = 1, #order do
    local mine, at = order[i], nil
    -- A list of others' random ids is not worth more than some tries.
    if #places > 0 or i <= 8 then
      at = locate(list, by_order[mine], mine, base, low, low_is, length - 1, last)
    end
    if at then
      places[#places + 1] = at
      low, low_is = at + 1, mine
    else
      missing[#missing + 1] = by_order[mine]
    end
  end
  return places, missing
end

-- Adds the places of the members as reading the list shows them, and returns those that it did not
-- come to: 0.5 us an element.
local function scan(list, members, places)
  local wanted, left, at, bytes, count = {}, #members, 0, 0, 16
  for i = 1, left do wanted[members[i]] = true end
  repeat
    local page = redis.call('LRANGE', list, at, at + count - 1)
    local ended = #page < count
    for i = 1, #page do
      bytes = bytes + #page[i]
      if wanted[page[i]] then
        wanted[page[i]] = nil
        places[#places + 1] = at + i - 1
        left = left - 1
      end
    end
    at = at + #page
    -- What is large is read in small pages.
    count = math.max(1, math.min(256, math.floor(1048576 * at / math.max(bytes, 1))))
  until left == 0 or ended or bytes > scanned_bytes_max
  local rest = {}
  for i = 1, #members do
    if wanted[members[i]] then rest[#rest + 1] = members[i] end
  end
  return rest
end

-- Takes one copy of each member off the list. Returns what that cost, in elements passed (LREM:
-- 40 of them take about 1 us): `shared`, which is never more than some passes over the list however
-- many members go, and `each`, which grows with them.
local function strike(list, members)
  local length = redis.call('LLEN', list)
  local rest, places, shared, each = members, {}, 0, 0
  if length >= (#members < 4 and 10 * long or long) then
    local short = length <= scanned_max
    -- To read the list is cheaper where a good part of it goes.
    local many = short and 25 * #members >= length
    if not many then places, rest = located(list, length, members) end
    -- 10 us for each, until they are many.
    if short then shared = 400 * #places end
    if many or (short and #rest > 25) then
      rest, shared = scan(list, rest, places), shared + 25 * length
    end
    each = #rest * length / 2
    local walk = 0
    for i = 1, #places do walk = walk + math.min(places[i], length - places[i]) end
    if walk > length then
      for i = 1, #places do redis.call('LSET', list, places[i], struck) end
      redis.call('LREM', list, 0, struck)
      walk = length
    elseif #places > 0 then
      rest = members
    end
    shared = shared + walk
  end
  for i = 1, #rest do unlist(list, rest[i], select(2, read(rest[i]))) end
  return shared, each
end
