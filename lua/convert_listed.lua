-- Rewrite pending members in the other format, in one page of the order list.
--
-- KEYS[1]  string  call         number and reply of this link's last call
-- KEYS[2]  zset    timeout      member -> due, Unix ms
-- KEYS[3]  list    list         the members in offer order
-- KEYS[4]  hash    queue_key    true name and format of the queue
-- ARGV[1]  int     number       of this call
-- ARGV[2]  int     valid_until_ms
-- ARGV[3]  text    queue
-- ARGV[4]  text    format       'legacy' or 'modern'; '' that of the queue
-- ARGV[5]  int     index        where the page begins; 0 first, then next_index
-- ARGV[6]  int     look_max     members to look at
-- ARGV[7]  int     convert_max  members to rewrite
-- ARGV[8]  int     bytes_max    of members looked at; one is however large
-- RETURN   { now_us, 'OK', next_index, converted }, next_index -1 at the end;
--          { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--          { now_us, 'BADQUEUE', true name }
--          Scores stay, so nothing is published
-- COST     O(look_max), and for each rewritten O(log pending) and finding its place by index

local call_key, timeout, list, queue_key = unpack(KEYS)
local number, valid_until_ms, queue, format, index, look_max, convert_max, bytes_max = unpack(ARGV)

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = guard(call_key, number, valid_until_ms, now_us / 1000)
if refused then return { now_us, refused } end
refused = refuse(now_us, queue_key, queue, { timeout, 'zset', list, 'list' })
if refused then return applied(call_key, number, refused) end

format, index, look_max = target(queue_key, format), tonumber(index), tonumber(look_max)
convert_max, bytes_max = tonumber(convert_max), tonumber(bytes_max)
local looked, bytes, converted, chunk, ended = 0, 0, 0, 1, false
while not ended and looked < look_max and bytes < bytes_max and converted < convert_max do
  local page = redis.call('LRANGE', list, index, index + chunk - 1)
  ended = #page < chunk
  for i = 1, #page do
    local other = repack(page[i], format)
    -- What the zset does not have is stale, and stays so.
    if other and other ~= page[i] and swap(timeout, page[i], other) then
      redis.call('LSET', list, index, other)
      converted = converted + 1
    end
    index, looked, bytes = index + 1, looked + 1, bytes + #page[i]
    if converted == convert_max then
      ended = false
      break
    end
  end
  chunk = next_chunk(chunk, looked, bytes, bytes_max)
end
return applied(call_key, number, { now_us, 'OK', ended and -1 or index, converted })
