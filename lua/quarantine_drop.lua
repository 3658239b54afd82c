-- Forget members that were put aside.
--
-- KEYS[1]   string  call        number and reply of this link's last call
-- KEYS[2]   hash    record      true name of the queue
-- KEYS[3]   zset    quarantine  unreadable member -> its score
-- KEYS[4]   none    guard       the channel's name, never a key: see _begin.lua
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
-- RETURN    { now_us, 'OK', dropped, 0, score, from, rank, mark }: the next cursor, its score '' at
--           the end. { now_us, 'LOST' } if its place is lost, { now_us, 'LATE' | 'SETTLED' },
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST      O(log quarantined) for each member

local _, record, quarantine = unpack(KEYS)

local now_us, queue, refused = Begin.write(record, ARGV[3], { quarantine, 'zset' })
if refused then return refused end

local first, dropped = tonumber(ARGV[4]), redis.call('ZCARD', quarantine)
if first > 0 and dropped <= first then
  -- To free a large member takes as long as to read it: beside the commands, where all go.
  redis.call('UNLINK', quarantine)
  return Call.applied({ now_us, 'OK', dropped, 0, '', '', 0, '' })
end
local cursor, found = { ARGV[6], ARGV[7], ARGV[8], ARGV[9] }, {}
local page = Page.walk(quarantine, cursor, first, tonumber(ARGV[5]), function(member)
  found[#found + 1] = member
end)
if not page then return { now_us, 'LOST' } end
for i = 10, #ARGV do found[#found + 1] = ARGV[i] end
dropped = 0
for i = 1, #found do dropped = dropped + redis.call('ZREM', quarantine, found[i]) end
local reply = { now_us, 'OK', dropped, 0, Page.cursor_of(quarantine, cursor, page, dropped) }
return Call.applied(reply)
