-- Rewrite pending members in the other format, in one page of the zset: also those that are not
-- listed; and count what stays as it is.
--
-- KEYS[1]  string  call           number and reply of this link's last call
-- KEYS[2]  zset    timeout        member -> due, Unix ms
-- KEYS[3]  list    list           the members in offer order
-- KEYS[4]  hash    queue_key      true name and format of the queue
-- ARGV[1]  int     number         of this call
-- ARGV[2]  int     valid_until_ms
-- ARGV[3]  text    queue
-- ARGV[4]  text    format         'legacy' or 'modern'; '' that of the queue
-- ARGV[5]  text    cursor_score   of the last member looked at, '' on the first page
-- ARGV[6]  bytes   cursor_prefix  first 64 bytes of that member
-- ARGV[7]  int     look_max       members to look at
-- ARGV[8]  int     bytes_max      of members looked at; one is however large
-- RETURN   { now_us, 'OK', next_score, next_prefix, converted, left }: next_score '' at the end;
--          left: how many of the page are in another format or unreadable.
--          { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--          { now_us, 'BADQUEUE', true name }
--          Scores stay, so nothing is published
-- COST     O(log pending + look_max), and a search of the list for each rewritten: one, or as many
--          as pass 100,000 elements together

local call_key, timeout, list, queue_key = unpack(KEYS)
local number, valid_until_ms, queue, format = unpack(ARGV, 1, 4)
local cursor_score, cursor_prefix, look_max, bytes_max = ARGV[5], ARGV[6], ARGV[7], ARGV[8]

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = guard(call_key, number, valid_until_ms, now_us / 1000)
if refused then return { now_us, refused } end
refused = refuse(now_us, queue_key, queue, { timeout, 'zset', list, 'list' })
if refused then return applied(call_key, number, refused) end

local rank = cursor_score ~= '' and rank_after(timeout, cursor_score, cursor_prefix) or 0

format, look_max, bytes_max = target(queue_key, format), tonumber(look_max), tonumber(bytes_max)
local convert_max = math.max(1, math.floor(100000 / math.max(1, redis.call('LLEN', list))))
local score, prefix, looked, bytes, converted, left = '', '', 0, 0, 0, 0
local chunk, ended = 1, false
-- What is rewritten changes its rank: the page ends behind the chunk that it is in.
while not ended and looked < look_max and bytes < bytes_max and converted == 0 do
  local page = redis.call('ZRANGE', timeout, rank, rank + chunk - 1, 'WITHSCORES')
  ended = #page < 2 * chunk
  for i = 1, #page, 2 do
    local member = page[i]
    local other = repack(member, format)
    if other and other ~= member and swap(timeout, member, other) then
      local place = redis.call('LPOS', list, member)
      if place then redis.call('LSET', list, place, other) end
      converted = converted + 1
    elseif other ~= member then
      left = left + 1
    end
    score, prefix = page[i + 1], string.sub(member, 1, 64)
    rank, looked, bytes = rank + 1, looked + 1, bytes + #member
    if converted == convert_max then
      ended = false
      break
    end
  end
  chunk = next_chunk(chunk, looked, bytes, bytes_max)
end
if ended then score, prefix = '', '' end
return applied(call_key, number, { now_us, 'OK', score, prefix, converted, left })
