-- Change the due time of one message; member, name and place in offer order stay.
--
-- KEYS[1]  string  call       number and reply of this link's last call
-- KEYS[2]  zset    timeout    member -> due, Unix ms
-- KEYS[3]  list    list       the members in offer order
-- KEYS[4]  hash    record     true name, order_list, unlisted_*
-- KEYS[5]  hash    names      name -> message id
-- KEYS[6]  hash    ids        hex of the id -> name
-- KEYS[7]  none    guard      the channel's name, never a key: see _begin.lua
-- ARGV[1]  int     number     of this call
-- ARGV[2]  int     valid_until_ms
-- ARGV[3]  text    queue
-- ARGV[4]  text    score      '' if the next is a name
-- ARGV[5]  text    id         bytes of the id, or the name
-- ARGV[6]  int     delay      >= 0: ms from now; < 0: the due time negated
-- RETURN   { now_us, 'OK', new_score, id bytes, head 0 | 1 }, new_score '' if it is not pending;
--          { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--          { now_us, 'BADQUEUE', true name }. head: it is now the next one due, and published
-- COST     O(log pending); one pass over the list where the member had left it, see _unlisted.lua

local _, timeout, list, record, names, ids = unpack(KEYS)
local _, _, _, score, id, delay = unpack(ARGV)

local now_us, queue, refused = Begin.write(record, ARGV[3], {
  timeout, 'zset', list, 'list', names, 'hash', ids, 'hash',
})
if refused then return refused end

local member, before = Find.member(timeout, names, score, id)
if not member then return Call.applied({ now_us, 'OK', '', '', 0 }) end

local its_id = Member.id(member)
local now_ms = math.ceil(now_us / 1000)
delay = tonumber(delay)
local due = string.format('%.0f', delay < 0 and math.max(-delay, now_ms) or now_ms + delay)
redis.call('ZADD', timeout, 'XX', due, member)
Names.rescore(names, ids, due, its_id)
if queue.keeps_list then
  Unlisted.list_again(queue, list, member, tonumber(before), tonumber(due))
end
local head = Publish.head(timeout, list, { member }, tonumber(due))
return Call.applied({ now_us, 'OK', due, its_id, head })
