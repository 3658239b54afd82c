-- Read a page of pending messages by due time.
--
-- KEYS[1]  zset  timeout      member -> due, Unix ms
-- KEYS[2]  hash  record       true name of the queue
-- KEYS[3]  hash  ids          hex of the id -> name
-- KEYS[4]  none  guard        the channel's name, never a key: see _begin.lua
-- ARGV[1]  text  queue
-- ARGV[2]  text  from         score or '-inf', inclusive
-- ARGV[3]  text  to           score or 'inf', inclusive
-- ARGV[4]  int   count        messages at most; a search reads half as many where there are names
-- ARGV[5]  int   bytes_max    of members and names; one message is read however large
-- ARGV[6]  int   message_max  bytes of a member beyond which it is not handed out
-- ARGV[7]  text  score        cursor of _page.lua, '' on the first page
-- ARGV[8]  bytes from         of the cursor
-- ARGV[9]  int   rank         of the cursor
-- ARGV[10] text  mark         of the cursor
-- ARGV[11] text  mode         'search', or none
-- RETURN   { now_us, 'OK', score, from, rank, mark, member, score, name... }: the next cursor, its
--          score '' at the end; name '' if there is none. { now_us, 'LOST' } if the cursor's place
--          is lost. { now_us, 'TOOBIG', bytes, message id or score, message_max } where the first
--          message is larger; another one that is ends the page before it.
--          Of a search { now_us, 'OK', score, from, rank, mark, first, member, score, name... },
--          first: the rank of the first member; { now_us, 'PASSED', score, from, rank, mark } where
--          that one is too large, and passed over.
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(log pending + count), at most bytes_max and four members more

local timeout, record, ids = unpack(KEYS)
local _, from, to, count, bytes_max, message_max = unpack(ARGV, 1, 6)
local cursor = { ARGV[7], ARGV[8], ARGV[9], ARGV[10] }

local now_us, queue, refused = Begin.read(record, ARGV[1], { timeout, 'zset', ids, 'hash' })
if refused then return refused end
bytes_max, message_max = tonumber(bytes_max), tonumber(message_max)

-- The page is the ranks rank..last-1.
local rank, ahead = redis.call('ZCOUNT', timeout, '-inf', '(' .. from), nil
local last = redis.call('ZCOUNT', timeout, '-inf', to)
if cursor[1] ~= '' then
  local place, here = Page.rank_at(timeout, unpack(cursor))
  if not place then return { now_us, 'LOST' } end
  if place >= rank then rank, ahead = place, here end
end

local reply, bytes, named = { now_us, 'OK', '', '', 0, '' }, 0, redis.call('EXISTS', ids) == 1
local searches = ARGV[11] == 'search'
if searches then reply[7] = rank end
local head, length = #reply, redis.call('ZCARD', timeout)
-- To find a name takes as long as to read a member.
count = math.ceil(tonumber(count) / (searches and named and 2 or 1))
local read_to = math.min(last, rank + count)
-- Of these members in one command, since each takes as long as to read a few members.
local function names_of(found)
  local digits = {}
  for i = 1, #found, 2 do
    local id = Member.id(found[i])
    -- No hexadecimal: nobody's name.
    digits[#digits + 1] = id and Member.hex(id) or 'unreadable'
  end
  return redis.call('HMGET', ids, unpack(digits))
end

local step, member, score, next_one = 1, nil, nil, nil
while rank < read_to and not next_one and (bytes < bytes_max or #reply == head) do
  local found = ahead and { ahead, cursor[1] }
    or redis.call('ZRANGE', timeout, rank, math.min(rank + step, read_to) - 1, 'WITHSCORES')
  ahead = nil
  local names = named and names_of(found)
  for i = 1, #found, 2 do
    local size = #found[i]
    local name = names and names[(i + 1) / 2]
    if size > message_max and #reply == head then
      if searches then
        local passed = { now_us, 'PASSED', '', '', 0, '' }
        if rank + 1 < last then
          passed[3], passed[4], passed[5], passed[6] =
            Page.cursor_behind(timeout, found[i], found[i + 1], rank + 1)
        end
        return passed
      end
      local id = Member.id(found[i])
      local what = id and Member.message_id(found[i + 1], id) or found[i + 1]
      return { now_us, 'TOOBIG', size, what, message_max }
    end
    bytes = bytes + size + (name and #name or 0)
    if size > message_max or (bytes > bytes_max and #reply > head) then
      next_one = found[i]
      break
    end
    member, score = found[i], found[i + 1]
    local at = #reply
    reply[at + 1], reply[at + 2], reply[at + 3] = member, score, name or ''
    rank = rank + 1
  end
  step = Page.next_chunk(step, (#reply - head) / 3, math.huge, bytes, bytes_max, length)
end
if rank < last and member then
  reply[3], reply[4], reply[5], reply[6] =
    Page.cursor_behind(timeout, member, score, rank, next_one)
end
return reply
