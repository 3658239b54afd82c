-- Rewrite pending members in the other format, in one page of the order list.
--
-- KEYS[1]  string  call         number and reply of this link's last call
-- KEYS[2]  zset    timeout      member -> due, Unix ms
-- KEYS[3]  list    list         the members in offer order
-- KEYS[4]  hash    record       true name and format of the queue
-- KEYS[5]  none    guard        the channel's name, never a key: see _begin.lua
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

local _, timeout, list, record = unpack(KEYS)
local _, _, _, format, index, look_max, convert_max, bytes_max = unpack(ARGV)

local now_us, queue, refused = Begin.write(record, ARGV[3], { timeout, 'zset', list, 'list' })
if refused then return refused end

format, index, look_max = Convert.format(queue, format), tonumber(index), tonumber(look_max)
convert_max, bytes_max = tonumber(convert_max), tonumber(bytes_max)
local looked, bytes, converted, chunk, ended = 0, 0, 0, 1, false
local length = redis.call('LLEN', list)
while not ended and looked < look_max and bytes < bytes_max and converted < convert_max do
  local page = redis.call('LRANGE', list, index, index + chunk - 1)
  ended = #page < chunk
  for i = 1, #page do
    local other = Convert.repack(page[i], format)
    -- What the zset does not have is stale, and stays so.
    if other and other ~= page[i] and Convert.swap(timeout, page[i], other) then
      redis.call('LSET', list, index, other)
      converted = converted + 1
    end
    index, looked, bytes = index + 1, looked + 1, bytes + #page[i]
    if converted == convert_max then
      ended = false
      break
    end
  end
  chunk = Page.next_chunk(chunk, looked, look_max, bytes, bytes_max, length, list)
end
return Call.applied({ now_us, 'OK', ended and -1 or index, converted })
