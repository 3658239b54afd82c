-- Finds a member by its message id or name without an index.
-- Keeps: members of one score stand in the order of their bytes, so a rank is found by halving,
-- however many share the score.

-- How many bytes both begin with, `most` at most; by halving, since byte by byte is slow.
function Find.common(a, b, most)
  local low, high = 0, math.min(#a, #b, most)
  while low < high do
    local middle = math.ceil((low + high) / 2)
    if string.sub(a, low + 1, middle) == string.sub(b, low + 1, middle) then
      low = middle
    else
      high = middle - 1
    end
  end
  return low
end

-- `a < b` by bytes; Lua's own `<` follows the locale.
function Find.below(a, b)
  local same = Find.common(a, b, #b)
  return same < #b and (string.byte(a, same + 1) or -1) < string.byte(b, same + 1)
end

-- The first rank in first..last-1 whose member is not below `bytes`, with that member and its
-- score; `last` alone if there is none. The members of these ranks share one score. Each that is
-- looked at is read whole, so as few are as halving needs.
function Find.rank(timeout, first, last, bytes)
  local member, score
  while first < last do
    local middle = math.floor((first + last) / 2)
    local found = redis.call('ZRANGE', timeout, middle, middle, 'WITHSCORES')
    if Find.below(found[1], bytes) then
      first = middle + 1
    else
      last, member, score = middle, found[1], found[2]
    end
  end
  return first, member, score
end

-- Score text and id bytes of `<score>-<hex>`: the last `-` divides, scores may hold others.
function Find.split(text)
  local score, digits = string.match(text, '^(.+)%-(%x*)$')
  if not score or #digits % 2 == 1 then return end
  local id = string.gsub(digits, '..', function(pair) return string.char(tonumber(pair, 16)) end)
  return score, id
end

-- Members of others that share their first bytes with an id and are none: so many are passed over,
-- and so many bytes of them.
local alike_max, alike_bytes_max = 100, 1048576

-- member, score as Redis writes it; nothing if it is not pending. An empty `score` says that `id`
-- is the message's name; one behind a '=' that it is the member itself. With a payload, only a
-- message that carries it.
function Find.member(timeout, names, score, id, payload)
  if string.byte(score) == 61 then
    local found = redis.call('ZSCORE', timeout, id)
    if found and tonumber(found) == tonumber(string.sub(score, 2)) then return id, found end
    return
  end
  if score == '' then
    local text = redis.call('HGET', names, id)
    if text then score, id = Find.split(text) end
    if not text or not score then return end
  end
  if #id > 255 then return end
  local function is_it(member)
    if Member.id(member) ~= id then return false end
    if not payload then return true end
    return string.sub(member, (Envelope.open(member, (Member.parts(member))))) == payload
  end
  -- A score that is no number can come from a damaged name only; the key's type was checked.
  local sharing = redis.pcall('ZCOUNT', timeout, score, score)
  if type(sharing) ~= 'number' or sharing == 0 then return end
  if sharing == 1 then
    local found = redis.call('ZRANGEBYSCORE', timeout, score, score, 'WITHSCORES')
    if is_it(found[1]) then return found[1], found[2] end
    return
  end
  local first = redis.call('ZCOUNT', timeout, '-inf', '(' .. score)
  local beyond = first + sharing
  local prefixes = { string.char(#id) .. id, #id == 8 and id or nil }
  for i = 1, #prefixes do
    local prefix, met, bytes = prefixes[i], 0, 0
    local rank, member, its_score = Find.rank(timeout, first, beyond, prefix)
    while member and string.sub(member, 1, #prefix) == prefix do
      if is_it(member) then return member, its_score end
      rank, met, bytes = rank + 1, met + 1, bytes + #member
      if rank == beyond or met == alike_max or bytes > alike_bytes_max then break end
      local found = redis.call('ZRANGE', timeout, rank, rank, 'WITHSCORES')
      member, its_score = found[1], found[2]
    end
  end
end
