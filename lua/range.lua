-- Read a page of pending messages by due time.
--
-- KEYS[1]  zset  timeout        member -> due, Unix ms
-- KEYS[2]  hash  queue_key      true name of the queue
-- KEYS[3]  hash  ids            hex of the id -> name
-- ARGV[1]  text  queue
-- ARGV[2]  text  from           score or '-inf', inclusive
-- ARGV[3]  text  to             score or '+inf', inclusive
-- ARGV[4]  int   count          messages at most
-- ARGV[5]  int   bytes_max      of members; one message is read however large
-- ARGV[6]  text  cursor_score   of the last message of the page before, '' on the first page
-- ARGV[7]  text  cursor_prefix  first 64 bytes of its member
-- RETURN   { now_us, 'OK', more 0 | 1, member, score, name, ... } (name '' if there is none),
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(log pending + count)

local timeout, queue_key, ids = unpack(KEYS)
local queue, from, to, count, bytes_max, cursor_score, cursor_prefix = unpack(ARGV)

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = refuse(now_us, queue_key, queue, { timeout, 'zset', ids, 'hash' })
if refused then return refused end
count, bytes_max = tonumber(count), tonumber(bytes_max)

-- The page is the ranks rank..last-1.
local rank = redis.call('ZCOUNT', timeout, '-inf', '(' .. from)
local last = redis.call('ZCOUNT', timeout, '-inf', to)
if cursor_score ~= '' then
  rank = math.max(rank, rank_after(timeout, cursor_score, cursor_prefix))
end

local reply, bytes, named = { now_us, 'OK', 0 }, 0, redis.call('EXISTS', ids) == 1
local read_to = math.min(last, rank + count)
-- Large members are read one by one: none that does not fit, but the last.
local step = 1
while rank < read_to and (bytes < bytes_max or #reply == 3) do
  local page_to = math.min(rank + step, read_to) - 1
  local found = redis.call('ZRANGE', timeout, rank, page_to, 'WITHSCORES')
  for i = 1, #found, 2 do
    local member, name = found[i], nil
    bytes = bytes + #member
    if bytes > bytes_max and #reply > 3 then
      read_to = rank
      break
    end
    if named then
      local _, id = read(member)
      name = id and redis.call('HGET', ids, hex(id))
    end
    local size = #reply
    reply[size + 1], reply[size + 2], reply[size + 3] = member, found[i + 1], name or ''
    rank = rank + 1
  end
  step = 96 * bytes < bytes_max * (#reply - 3) and 8 or 1
end
if rank < last then reply[3] = 1 end
return reply
