-- Rewrite pending members in the other format, in one page of the zset: also those that are not
-- listed; and count what stays as it is.
--
-- KEYS[1]  string  call           number and reply of this link's last call
-- KEYS[2]  zset    timeout        member -> due, Unix ms
-- KEYS[3]  list    list           the members in offer order
-- KEYS[4]  hash    record         true name and format of the queue
-- KEYS[5]  none    guard          the channel's name, never a key: see _begin.lua
-- ARGV[1]  int     number         of this call
-- ARGV[2]  int     valid_until_ms
-- ARGV[3]  text    queue
-- ARGV[4]  text    format         'legacy' or 'modern'; '' that of the queue
-- ARGV[5]  text    score        cursor of _page.lua, '' on the first page
-- ARGV[6]  bytes   from         of the cursor
-- ARGV[7]  int     rank         of the cursor
-- ARGV[8]  text    mark         of the cursor
-- ARGV[9]  int     look_max     members to look at
-- ARGV[10] int     bytes_max    of members looked at; one is however large
-- RETURN   { now_us, 'OK', converted, left, score, from, rank, mark }: the next cursor, its score
--          '' at the end; left: how many of the page are in another format or unreadable.
--          { now_us, 'LOST' } if the cursor's place is lost,
--          { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--          { now_us, 'BADQUEUE', true name }
--          Scores stay, so nothing is published
-- COST     O(log pending + look_max), and a search of the list for each rewritten: one, or as many
--          as pass 100,000 elements together

local _, timeout, list, record = unpack(KEYS)
local _, _, _, format = unpack(ARGV, 1, 4)
local look_max, bytes_max = tonumber(ARGV[9]), tonumber(ARGV[10])

local now_us, queue, refused = Begin.write(record, ARGV[3], { timeout, 'zset', list, 'list' })
if refused then return refused end

format = Convert.format(queue, format)
local convert_max = math.floor(100000 / math.max(1, redis.call('LLEN', list)))
convert_max = math.max(1, math.min(100, convert_max))
local found, left = {}, 0
local cursor = { ARGV[5], ARGV[6], ARGV[7], ARGV[8] }
local page = Page.walk(timeout, cursor, look_max, bytes_max, function(member)
  local other = Convert.repack(member, format)
  if not other then
    left = left + 1
  elseif other ~= member then
    found[#found + 1], found[#found + 2] = member, other
    if #found == 2 * convert_max then return 'behind' end
  end
end)
if not page then return { now_us, 'LOST' } end
-- What is rewritten changes its rank, so the next page is fixed first.
local reply = { now_us, 'OK', 0, 0, Page.cursor_of(timeout, cursor, page, 0) }
for i = 1, #found, 2 do
  if Convert.swap(timeout, found[i], found[i + 1]) then
    local place = redis.call('LPOS', list, found[i])
    if place then redis.call('LSET', list, place, found[i + 1]) end
    reply[3] = reply[3] + 1
  else
    left = left + 1
  end
end
reply[4] = left
return Call.applied(reply)
