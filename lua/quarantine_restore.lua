-- Put members from quarantine back to pending, with their scores.
--
-- KEYS[1]   string  call        number and reply of this link's last call
-- KEYS[2]   zset    timeout     member -> due, Unix ms
-- KEYS[3]   list    list        the members in offer order
-- KEYS[4]   hash    record      true name, order_list
-- KEYS[5]   zset    quarantine  unreadable member -> its score
-- KEYS[6]   none    guard       the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number      of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   int     first       how many from the cursor on, 0 where members are named
-- ARGV[5]   int     bytes_max   of these; one goes however large
-- ARGV[6]   text    score       cursor of _page.lua, '' at the start
-- ARGV[7]   bytes   from        of the cursor
-- ARGV[8]   int     rank        of the cursor
-- ARGV[9]   text    mark        of the cursor
-- ARGV[10..] bytes  members
-- RETURN    { now_us, 'OK', restored, head 0 | 1, score, from, rank, mark }: head: it is one of
--           them now, and published; the next cursor, its score '' at the end.
--           { now_us, 'LOST' } if the cursor's place is lost, { now_us, 'LATE' | 'SETTLED' },
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST      O(log pending) for each member

local _, timeout, list, record, quarantine = unpack(KEYS)

local now_us, queue, refused = Begin.write(record, ARGV[3], {
  timeout, 'zset', list, 'list', quarantine, 'zset',
})
if refused then return refused end

-- A member that is pending again already (a foreign program put it there) only leaves quarantine.
local restored, least, mine = 0, math.huge, {}
local function restore(member, score)
  redis.call('ZREM', quarantine, member)
  if redis.call('ZADD', timeout, 'NX', score, member) == 1 then
    if queue.keeps_list then redis.call('RPUSH', list, member) end
    local its = tonumber(score)
    if its < least then least, mine = its, {} end
    if its == least then mine[#mine + 1] = member end
  end
  restored = restored + 1
end
local cursor, found = { ARGV[6], ARGV[7], ARGV[8], ARGV[9] }, {}
local page = Page.walk(quarantine, cursor, tonumber(ARGV[4]), tonumber(ARGV[5]), function(member)
  found[#found + 1] = member
end)
if not page then return { now_us, 'LOST' } end
for i = 10, #ARGV do found[#found + 1] = ARGV[i] end
for i = 1, #found do
  local score = redis.call('ZSCORE', quarantine, found[i])
  if score then restore(found[i], score) end
end
local head = Publish.head(timeout, list, mine, least)
local reply = { now_us, 'OK', restored, head, Page.cursor_of(quarantine, cursor, page, restored) }
return Call.applied(reply)
