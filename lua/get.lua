-- Look one message up by id or name.
--
-- KEYS[1]  zset  timeout    member -> due, Unix ms
-- KEYS[2]  hash  queue_key  true name of the queue
-- KEYS[3]  hash  names      name -> message id
-- KEYS[4]  hash  ids        hex of the id -> name
-- ARGV[1]  text  queue
-- ARGV[2]  text  score      '' if the next is a name
-- ARGV[3]  text  id         bytes of the id, or the name
-- RETURN   { now_us, 'OK', member, score, name }, all three '' if there is no such message, the
--          name '' if it has none; { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(log pending)

local timeout, queue_key, names, ids = unpack(KEYS)
local queue, score, id = unpack(ARGV)

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = refuse(now_us, queue_key, queue, { timeout, 'zset', names, 'hash', ids, 'hash' })
if refused then return refused end

local member, its_score = find(timeout, names, score, id)
if not member then return { now_us, 'OK', '', '', '' } end
local name = redis.call('HGET', ids, hex(select(2, read(member))))
return { now_us, 'OK', member, its_score, name or '' }
