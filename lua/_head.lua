-- The score of a zset's head. A large head is not read: to copy 16 MiB takes 40 ms.
-- Knows no key. Keeps: the cost depends little on the size of the member.
--
-- ZCOUNT takes 0.3 us if it counts nothing. Otherwise it compares the first and the last member of
-- the range with themselves, which takes 45 us a MiB. So a score is searched from below, with few
-- counts that find something: the steps grow until one passes the head, and then divide that one.

local small = 1024 -- bytes of a member that takes 2 us to copy
Head.read_max = 16384 -- bytes of a member that is quicker to copy than its score is to find
local unknown = 262144 -- bytes that a member is taken to have if its size is not known
Head.spent_max_us = 2000 -- of finding scores, in a script that reads those of many zsets
local end_of_time = 1000000000000000 -- ms; scores from here on are no times
local largest = 1.7976931348623157e308

function Head.none_until(timeout, bound)
  return redis.call('ZCOUNT', timeout, '-inf', bound) == 0
end

local function text(score) return string.format('%.17g', score) end

-- The exact score, which is above `low` and at most `high`.
local function halved(timeout, low, high)
  for _ = 1, 64 do
    local middle = low / 2 + high / 2
    if middle <= low or middle >= high then break end
    if Head.none_until(timeout, middle) then low = middle else high = middle end
  end
  return text(high)
end

-- A score that is no time of ours, since others may write anything.
local function foreign(timeout)
  local low, high
  if Head.none_until(timeout, '(0') then
    if Head.none_until(timeout, largest) then return 'inf' end
    low, high = end_of_time - 1, end_of_time
    while Head.none_until(timeout, high) do low, high = high, math.min(high * 16, largest) end
  else
    if not Head.none_until(timeout, '-inf') then return '-inf' end
    low, high = -1, 0
    while low > -largest and not Head.none_until(timeout, low) do
      low, high = math.max(low * 16, -largest), low
    end
  end
  return halved(timeout, low, high)
end

-- The score, searched from `near`, a moment in ms. Each step is `base` times as large as the one
-- before it.
local function searched(timeout, near, base)
  local low, high, step = near, nil, 1
  if Head.none_until(timeout, near) then
    if Head.none_until(timeout, '(' .. end_of_time) then return foreign(timeout) end
    while Head.none_until(timeout, low + step) do low, step = low + step, step * base end
    high = low + step
  else
    if not Head.none_until(timeout, '(0') then return foreign(timeout) end
    while step <= near do step = step * base end
    while step >= 1 and Head.none_until(timeout, near - step) do
      low, step = near - step, step / base
    end
    high = step >= 1 and near - step or near
    step = step * base
  end
  while high - low > 1 do
    step = math.max(1, step / base)
    while low + step < high and Head.none_until(timeout, low + step) do low = low + step end
    high = math.min(high, low + step)
  end
  if Head.none_until(timeout, '(' .. text(high)) then return text(high) end
  return halved(timeout, low, high)
end

-- The head's score as Redis writes it, '' if nothing is pending; and, unless the member is small,
-- about how many microseconds that took. `pending`: the answer of ZCARD. `known`: the score that is
-- expected, ms, or nil. `roughly`: the score of a large head is not searched; it is '>' if the head
-- is not due yet, else now.
function Head.score(timeout, pending, now_ms, known, roughly)
  if pending == 0 then return '', 0 end
  -- The bytes of the whole zset, as if all members had the size of the first one; an error if this
  -- user may not ask.
  local bytes = redis.pcall('MEMORY', 'USAGE', timeout, 'SAMPLES', '1')
  local each = type(bytes) == 'number' and bytes / pending or unknown
  local function head() return redis.call('ZRANGE', timeout, '0', '0', 'WITHSCORES')[2] end
  if each <= small then return head(), 0 end
  local compares_us = each / 23000
  local near = now_ms
  if known and known < end_of_time and Head.none_until(timeout, '(' .. text(known)) then
    local after = redis.call('ZCOUNT', timeout, '(' .. text(known), '+inf')
    if after < pending then return text(known), after > 0 and compares_us or 0 end
    near = known
  end
  if each <= Head.read_max then return head(), each / 750 end
  if roughly then
    if Head.none_until(timeout, now_ms) then return '>', 0 end
    return text(now_ms), compares_us
  end
  local base = math.floor(math.max(4, math.min(1024, each / 16384)))
  return searched(timeout, near, base), 40 + 4 * compares_us
end
