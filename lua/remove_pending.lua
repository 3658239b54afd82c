-- Take out messages by payload, in one page of the zset: also those that are not listed.
--
-- KEYS[1]   string  call       number and reply of this link's last call
-- KEYS[2]   zset    timeout    member -> due, Unix ms
-- KEYS[3]   list    list       the members in offer order
-- KEYS[4]   hash    record     true name, order_list
-- KEYS[5]   hash    names      name -> message id
-- KEYS[6]   hash    ids        hex of the id -> name
-- KEYS[7]   none    guard      the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number     of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   int     size       of the payload
-- ARGV[5]   bytes   payload    or its last bytes, as _match.lua says
-- ARGV[6]   int     count      messages at most
-- ARGV[7]   int     look_max   members to look at
-- ARGV[8]   int     bytes_max  of members looked at; one is however large
-- ARGV[9]   text    score      cursor of _page.lua, '' on the first page
-- ARGV[10]  bytes   from       of the cursor
-- ARGV[11]  int     rank       of the cursor
-- ARGV[12]  text    mark       of the cursor
-- RETURN    { now_us, 'OK', removed, doubt 0 | 1, score, from, rank, mark }: the next cursor, its
--           score '' at the end. doubt: all bytes of the payload are needed to go on.
--           { now_us, 'LOST' } if the cursor's place is lost,
--           { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--           { now_us, 'BADQUEUE', true name }. A page that took nothing is not stored for settling
-- COST      O(log pending + look_max), at most bytes_max and three members more; and for what is
--           found one pass over the list, or as many as pass 200,000 elements together

local _, timeout, list, record, names, ids = unpack(KEYS)
local _, _, _, size, payload, count, look_max, bytes_max = unpack(ARGV, 1, 8)

local now_us, queue, refused = Begin.write(record, ARGV[3], {
  timeout, 'zset', list, 'list', names, 'hash', ids, 'hash',
})
if refused then return refused end

-- What is found here stands at the end of the list, if anywhere: it is looked for in all of it.
local most = queue.keeps_list and math.floor(200000 / math.max(1, redis.call('LLEN', list))) or 400
most = math.min(tonumber(count), math.max(1, math.min(400, most)))
local match, removed, taken, in_doubt = Match.any_of({ size, payload }, 1), {}, {}, 0
local cursor = { ARGV[9], ARGV[10], ARGV[11], ARGV[12] }
local page = Page.walk(timeout, cursor, tonumber(look_max), tonumber(bytes_max), function(member)
  local payload_no, doubt = match(member)
  if not payload_no then return end
  if doubt then
    in_doubt = 1
    return 'before'
  end
  removed[#removed + 1] = member
  taken[#taken + 1] = Member.hex(Member.id(member))
  if #removed == most then return 'behind' end
end)
if not page then return { now_us, 'LOST' } end
for i = 1, #removed do redis.call('ZREM', timeout, removed[i]) end
if queue.keeps_list then List.strike(list, List.plan(list, removed, math.huge)) end
Names.forget(timeout, names, ids, taken)
local reply = { now_us, 'OK', #removed, in_doubt }
reply[5], reply[6], reply[7], reply[8] = Page.cursor_of(timeout, cursor, page, #removed)
if #removed == 0 then return reply end
return Call.applied(reply)
