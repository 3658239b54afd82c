-- Finds a member by its message id or name without an index, and takes one off the order list.
-- Uses _member.lua. Keeps: members of one score stand in the order of their bytes, so a rank is
-- found by halving, however many share the score.

-- `a < b` by bytes; Lua's own `<` follows the locale.
local function below(a, b)
  for i = 1, #b do
    local x, y = string.byte(a, i) or -1, string.byte(b, i)
    if x ~= y then return x < y end
  end
  return false
end

-- The first rank in first..last-1 whose member is not below `bytes`; `last` if there is none.
-- The members of these ranks share one score.
local function search(timeout, first, last, bytes)
  while first < last do
    local middle = math.floor((first + last) / 2)
    if below(redis.call('ZRANGE', timeout, middle, middle)[1], bytes) then
      first = middle + 1
    else
      last = middle
    end
  end
  return first
end

-- Score text and id bytes of `<score>-<hex>`: the last `-` divides, scores may hold others.
local function split(text)
  local score, digits = string.match(text, '^(.+)%-(%x*)$')
  if not score or #digits % 2 == 1 then return end
  local id = string.gsub(digits, '..', function(pair) return string.char(tonumber(pair, 16)) end)
  return score, id
end

-- member, score as Redis writes it; nothing if it is not pending. An empty `score` says that `id`
-- is the message's name.
local function find(timeout, names, score, id)
  if score == '' then
    local text = redis.call('HGET', names, id)
    if text then score, id = split(text) end
    if not text or not score then return end
  end
  if #id > 255 then return end
  -- A score that is no number can come from a damaged name only; the key's type was checked.
  local sharing = redis.pcall('ZCOUNT', timeout, score, score)
  if type(sharing) ~= 'number' or sharing == 0 then return end
  if sharing <= 16 then
    local found = redis.call('ZRANGEBYSCORE', timeout, score, score, 'WITHSCORES')
    for i = 1, #found, 2 do
      local _, its_id = read(found[i])
      if its_id == id then return found[i], found[i + 1] end
    end
    return
  end
  local first = redis.call('ZCOUNT', timeout, '-inf', '(' .. score)
  local prefixes = { string.char(#id) .. id, #id == 8 and id or nil }
  for i = 1, #prefixes do
    local prefix = prefixes[i]
    local rank = search(timeout, first, first + sharing, prefix)
    while rank < first + sharing do
      local found = redis.call('ZRANGE', timeout, rank, rank, 'WITHSCORES')
      if string.sub(found[1], 1, #prefix) ~= prefix then break end
      local _, its_id = read(found[1])
      if its_id == id then return found[1], found[2] end
      rank = rank + 1
    end
  end
end

-- An id's place in offer order, roughly: ids of ours are big-endian counters.
local function place(id)
  return id and #id == 8 and struct.unpack('>I8', id)
end

-- Takes one copy of the member off the list, from the end that its id is nearer to.
local function unlist(list, member, id)
  local head = redis.call('LINDEX', list, 0)
  if not head then return end
  local mine, from_head, from_tail = place(id), nil, nil
  if mine and head ~= member then
    from_head = place(select(2, read(head)))
    from_tail = place(select(2, read(redis.call('LINDEX', list, -1))))
  end
  local near_tail = from_head and from_tail and from_tail - mine < mine - from_head
  redis.call('LREM', list, near_tail and -1 or 1, member)
end
