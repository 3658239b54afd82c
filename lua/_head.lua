-- The score of a zset's head, without its member where that is large: to copy 16 MiB takes 40 ms.
-- Knows no key. Keeps: what it costs depends little on the member's size.
--
-- ZCOUNT takes 0.3 us where it counts nothing; else it compares the first and the last member of
-- the range with themselves, 45 us a MiB. So a score is searched from below, in steps that make
-- few of these: they grow until the head is passed, and then divide the last one.

local small = 1024 -- bytes of a member that is copied in 2 us
Head.read_max = 16384 -- and of one that is copied in less time than a search takes
local unknown = 262144 -- bytes that it may have where that is not known
Head.spent_max_us = 2000 -- for finding scores, in a script that asks for those of many
local end_of_time = 1000000000000000 -- ms; scores from here on are no times
local largest = 1.7976931348623157e308

function Head.none_until(timeout, bound)
  return redis.call('ZCOUNT', timeout, '-inf', bound) == 0
end

local function text(score) return string.format('%.17g', score) end

-- The score in low < score <= high, exactly.
local function halved(timeout, low, high)
  for _ = 1, 64 do
    local middle = low / 2 + high / 2
    if middle <= low or middle >= high then break end
    if Head.none_until(timeout, middle) then low = middle else high = middle end
  end
  return text(high)
end

-- A score that no time of ours has: others may write anything.
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

-- `near`: a moment in ms that the head may be close to; `base`: how much larger each step is.
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

-- The head's score as Redis writes it, '' where nothing is pending (`pending`: ZCARD); and about
-- how long it took where the member is not small, in microseconds. `known`: where it is expected,
-- ms, or nil. `roughly`: a large head's score is not searched; it is '>' if that is not due yet,
-- else now.
function Head.score(timeout, pending, now_ms, known, roughly)
  if pending == 0 then return '', 0 end
  -- Bytes of the whole, as if each member had the size of the first one. Where this user may not
  -- ask, an error.
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
