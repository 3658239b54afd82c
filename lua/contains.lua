-- Say which payloads pending messages carry, in one page of the zset.
--
-- KEYS[1]   zset   timeout    member -> due, Unix ms
-- KEYS[2]   hash   record     true name of the queue
-- KEYS[3]   none   guard      the channel's name, never a key: see _begin.lua
-- ARGV[1]   text   queue
-- ARGV[2]   text   score      cursor of _page.lua, '' on the first page
-- ARGV[3]   bytes  from       of the cursor
-- ARGV[4]   int    rank       of the cursor
-- ARGV[5]   text   mark       of the cursor
-- ARGV[6]   int    look_max   members to look at
-- ARGV[7]   int    bytes_max  of members looked at; one is however large
-- ARGV[8..] pairs  payloads   size, bytes of each, as _match.lua says
-- RETURN    { now_us, 'OK', score, from, rank, mark, doubt, payload_no... }: the next cursor, its
--           score '' at the end. payload_no: from 1, of those that were found, of equal ones the
--           first. doubt: 0, or the number of a payload whose bytes are needed to go on.
--           { now_us, 'LOST' } if the cursor's place is lost,
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST      O(log pending + look_max), at most bytes_max and three members more

local timeout, record = unpack(KEYS)
local look_max, bytes_max = tonumber(ARGV[6]), tonumber(ARGV[7])

local now_us, queue, refused = Begin.read(record, ARGV[1], { timeout, 'zset' })
if refused then return refused end

local match = Match.any_of(ARGV, 8)
local found, in_doubt = {}, 0
local cursor = { ARGV[2], ARGV[3], ARGV[4], ARGV[5] }
local page = Page.walk(timeout, cursor, look_max, bytes_max, function(member)
  local payload_no, doubt = match(member)
  if doubt then
    in_doubt = payload_no
    return 'before'
  end
  if payload_no then found[payload_no] = true end
end)
if not page then return { now_us, 'LOST' } end
local reply = { now_us, 'OK', Page.cursor_of(timeout, cursor, page, 0) }
reply[7] = in_doubt
for payload_no in pairs(found) do reply[#reply + 1] = payload_no end
return reply
