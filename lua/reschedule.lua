-- Change the due time of one message; member, name and place in offer order stay.
--
-- KEYS[1]  string  call       number and reply of this link's last call
-- KEYS[2]  zset    timeout    member -> due, Unix ms
-- KEYS[3]  list    list       names the channel; not read
-- KEYS[4]  hash    queue_key  true name of the queue
-- KEYS[5]  hash    names      name -> message id
-- KEYS[6]  hash    ids        hex of the id -> name
-- ARGV[1]  int     number     of this call
-- ARGV[2]  int     valid_until_ms
-- ARGV[3]  text    queue
-- ARGV[4]  text    score      '' if the next is a name
-- ARGV[5]  text    id         bytes of the id, or the name
-- ARGV[6]  int     delay      >= 0: ms from now; < 0: the due time negated
-- RETURN   { now_us, 'OK', new_score, id bytes, head 0 | 1 }, new_score '' if it is not pending;
--          { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--          { now_us, 'BADQUEUE', true name }. head: it is now the next one due, and published
-- COST     O(log pending)

local call_key, timeout, list, queue_key, names, ids = unpack(KEYS)
local number, valid_until_ms, queue, score, id, delay = unpack(ARGV)

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = guard(call_key, number, valid_until_ms, now_us / 1000)
if refused then return { now_us, refused } end
refused = refuse(now_us, queue_key, queue, { timeout, 'zset', names, 'hash', ids, 'hash' })
if refused then return applied(call_key, number, refused) end

local member = find(timeout, names, score, id)
if not member then return applied(call_key, number, { now_us, 'OK', '', '', 0 }) end

local _, its_id = read(member)
local now_ms = math.ceil(now_us / 1000)
delay = tonumber(delay)
local due = string.format('%.0f', delay < 0 and math.max(-delay, now_ms) or now_ms + delay)
redis.call('ZADD', timeout, 'XX', due, member)
rescore(names, ids, due, its_id)
local head = publish_head(timeout, list, { [member] = true })
return applied(call_key, number, { now_us, 'OK', due, its_id, head })
