-- Find the ids that come first in offer order in one page of the zset, where no order list is kept.
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
-- ARGV[8]   bytes  before     ids of 8 bytes count only below this one; '' all
-- ARGV[9..] pair   payload    size, bytes, as _match.lua says: only messages with it; none: all
-- RETURN    { now_us, 'OK', score, from, rank, mark, doubt 0 | 1, score, id, score, id... }: the
--           next cursor, its score '' at the end; ids as they come. Unreadable members have none:
--           they are left to the transfer. doubt: all bytes of the payload are needed to go on.
--           { now_us, 'LOST' } if the cursor's place is lost,
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST      O(log pending + look_max), at most bytes_max and three members more

local timeout, record = unpack(KEYS)
local look_max, bytes_max, before = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]

local now_us, queue, refused = Begin.read(record, ARGV[1], { timeout, 'zset' })
if refused then return refused end

local high, low = math.huge, 0
if before ~= '' then high, low = struct.unpack('>I4I4', before) end
local function comes_before(id)
  if #id ~= 8 then return true end
  local its_high, its_low = struct.unpack('>I4I4', id)
  return its_high < high or (its_high == high and its_low < low)
end

local match, found, in_doubt = #ARGV > 8 and Match.any_of(ARGV, 9), {}, 0
local cursor = { ARGV[2], ARGV[3], ARGV[4], ARGV[5] }
local page = Page.walk(timeout, cursor, look_max, bytes_max, function(member)
  if match then
    local payload_no, doubt = match(member)
    if not payload_no then return end
    if doubt then
      in_doubt = 1
      return 'before'
    end
  end
  local id = Member.id(member)
  if not id or not comes_before(id) then return end
  -- To read all scores would take as long as the rest.
  local size = #found
  found[size + 1], found[size + 2] = redis.call('ZSCORE', timeout, member), id
end)
if not page then return { now_us, 'LOST' } end
local reply = { now_us, 'OK', Page.cursor_of(timeout, cursor, page, 0) }
reply[7] = in_doubt
for i = 1, #found do reply[7 + i] = found[i] end
return reply
