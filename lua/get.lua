-- Look one message up by id or name.
--
-- KEYS[1]  zset  timeout    member -> due, Unix ms
-- KEYS[2]  hash  record     true name of the queue
-- KEYS[3]  hash  names      name -> message id
-- KEYS[4]  hash  ids        hex of the id -> name
-- KEYS[5]  none  guard      the channel's name, never a key: see _begin.lua
-- ARGV[1]  text  queue
-- ARGV[2]  text  score      '' if the next is a name
-- ARGV[3]  text  id         bytes of the id, or the name
-- ARGV[4]  int   message_max  bytes of a member beyond which it is not handed out
-- RETURN   { now_us, 'OK', member, score, name }, all three '' if there is no such message, the
--          name '' if it has none; { now_us, 'TOOBIG', bytes, message id, message_max } if it is
--          larger than that; { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(log pending)

local timeout, record, names, ids = unpack(KEYS)
local _, score, id, message_max = unpack(ARGV)

local now_us, queue, refused = Begin.read(record, ARGV[1], {
  timeout, 'zset', names, 'hash', ids, 'hash',
})
if refused then return refused end

local member, its_score = Find.member(timeout, names, score, id)
if not member then return { now_us, 'OK', '', '', '' } end
if #member > tonumber(message_max) then
  return { now_us, 'TOOBIG', #member, Member.message_id(its_score, Member.id(member)), message_max }
end
local name = redis.call('HGET', ids, Member.hex(Member.id(member)))
return { now_us, 'OK', member, its_score, name or '' }
