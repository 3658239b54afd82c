-- Take out messages by payload, in one page of the order list: the first ones in offer order.
--
-- KEYS[1]   string  call       number and reply of this link's last call
-- KEYS[2]   zset    timeout    member -> due, Unix ms
-- KEYS[3]   list    list       the members in offer order
-- KEYS[4]   hash    record     true name, order_list
-- KEYS[5]   hash    names      name -> message id
-- KEYS[6]   hash    ids        hex of the id -> name
-- KEYS[7]   none    guard      the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number     of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   int     size       of the payload
-- ARGV[5]   bytes   payload    or its last bytes, as _match.lua says
-- ARGV[6]   int     count      messages at most
-- ARGV[7]   int     look_max   members to look at
-- ARGV[8]   int     bytes_max  of members looked at; one is however large
-- ARGV[9]   int     index      where the page begins; 0 first, then next_index
-- ARGV[10]  bytes   anchor     what stood before it; '' first, then next_anchor
-- RETURN    { now_us, 'OK', removed, doubt 0 | 1, next_index, next_anchor }: next_index -1 at the
--           end. doubt: all bytes of the payload are needed to go on.
--           { now_us, 'NOLIST' } where none is kept, { now_us, 'LATE' | 'SETTLED' },
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }. A page that took
--           nothing is not stored for settling
-- COST      O(look_max), at most bytes_max and two members more; and for what is found O(listed)
--
-- The anchor tells whether others took away what stands before the page: then it is looked for
-- backwards, in pages, and the page begins behind it. If it is gone it begins anew at the head;
-- what it already passed over there is no match. Stale entries of the payload go when met.

local _, timeout, list, record, names, ids = unpack(KEYS)
local _, _, _, size, payload, count, look_max, bytes_max = unpack(ARGV, 1, 8)
local index, anchor = tonumber(ARGV[9]), ARGV[10]

local now_us, queue, refused = Begin.write(record, ARGV[3], {
  timeout, 'zset', list, 'list', names, 'hash', ids, 'hash',
})
if refused then return refused end
if not queue.keeps_list then return { now_us, 'NOLIST' } end

count, look_max, bytes_max = tonumber(count), tonumber(look_max), tonumber(bytes_max)
local length = redis.call('LLEN', list)
local looked, bytes, chunk = 0, 0, 1
local function goes_on() return looked < look_max and bytes < bytes_max end
local function saw(member) looked, bytes = looked + 1, bytes + #member end
-- A member in few bytes.
local function marked(member) return #member .. ' ' .. string.sub(member, 1, 64) end

local at = math.min(index, length) - 1
local lost = index > 0
while lost and at >= 0 and goes_on() do
  local low = math.max(0, at - chunk + 1)
  local page = redis.call('LRANGE', list, low, at)
  for i = #page, 1, -1 do
    saw(page[i])
    if marked(page[i]) == anchor then
      index, lost = low + i, false
      break
    end
  end
  at = low - 1
  chunk = Page.next_chunk(chunk, looked, look_max, bytes, bytes_max, length, list)
end
if lost then return { now_us, 'OK', 0, 0, at + 1, at < 0 and '' or anchor } end

-- LSET has to go to each place, 18 us in the middle of a million, and LREM over all before it.
local match, removed, taken, places, in_doubt = Match.any_of({ size, payload }, 1), 0, {}, {}, 0
local places_max = math.min(400, 2000 / (1.5 + math.min(index, length - index) / 28000))
local kept, ended, full = nil, false, count < 1
-- The first page of a list reads no anchor: then a chunk of one shows how large members are.
if looked > 0 then
  chunk = Page.next_chunk(chunk, looked, look_max, bytes, bytes_max, length, list)
end
at = index
while not ended and not full and (goes_on() or at == index) do
  local page = redis.call('LRANGE', list, at, at + chunk - 1)
  ended = #page < chunk
  for i = 1, #page do
    local payload_no, doubt = match(page[i])
    if doubt then
      in_doubt, ended, full = 1, false, true
      break
    end
    saw(page[i])
    at = at + 1
    if payload_no then
      places[#places + 1] = at - 1
      -- The write that frees memory goes first: then Redis lets the others follow at its limit.
      if redis.call('ZREM', timeout, page[i]) == 1 then
        removed = removed + 1
        taken[removed] = Member.hex(Member.id(page[i]))
      end
      if removed == count or #places >= places_max then
        ended, full = false, true
        break
      end
    else
      kept = page[i]
    end
  end
  chunk = Page.next_chunk(chunk, looked, look_max, bytes, bytes_max, length, list)
end

-- Takes what stands at `places` off the list; false if there is no memory to do so.
local function cut()
  local first, last = places[1], places[#places]
  if not first then return true end
  if last == #places - 1 then
    redis.call('LTRIM', list, #places, -1)
    return true
  end
  for i = 1, #places do
    if redis.pcall('LSET', list, places[i], List.struck).err then return false end
  end
  local from_head = last + 1 <= length - first
  redis.call('LREM', list, from_head and #places or -#places, List.struck)
  return true
end

-- Stale entries alone need memory before they free any: without it they stay.
local gone = cut() and #places or 0
if kept then anchor = marked(kept) end
Names.forget(timeout, names, ids, taken)
local reply = { now_us, 'OK', removed, in_doubt, ended and -1 or at - gone, anchor }
if #places == 0 then return reply end
return Call.applied(reply)
