-- Forget a queue that has nothing pending: out of the registry, the names of its messages, what is
-- left in its order list, and its hash if nothing in it would be missed. A name whose keys alone
-- would say another one would be.
--
-- KEYS[1]  zset  timeout    member -> due, Unix ms
-- KEYS[2]  list  list       the members in offer order
-- KEYS[3]  hash  record     true name, pause, format, order_list
-- KEYS[4]  hash  names      name -> message id
-- KEYS[5]  hash  ids        hex of the id -> name
-- KEYS[6]  set   registry   queues the brokers know
-- KEYS[7]  hash  taken      payloads that consumers have taken: their queue's record stays
-- KEYS[8]  zset  crons      schedules: their queue stays
-- KEYS[9]  list  destination  due messages: while there are any, names may be held
-- KEYS[10] zset  first      due messages with a priority: the same
-- KEYS[11] hash  held       names that are held until their messages are done: see _held.lua
-- KEYS[12] none  guard      the channel's name, never a key: see _begin.lua
-- ARGV[1]  text  queue
-- RETURN   { now_us, 'OK', pruned 0 | 1 }: 0 where messages are pending, or schedules are set,
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(1)

local timeout, list, record, names, ids, registry, taken, crons = unpack(KEYS)
local destination, first, held = KEYS[9], KEYS[10], KEYS[11]
local name = ARGV[1]

local now_us, queue, refused = Begin.read(record, name, {
  timeout, 'zset', list, 'list', registry, 'set',
})
if refused then return refused end
if redis.call('EXISTS', timeout) == 1 then return { now_us, 'OK', 0 } end

-- Other programs take messages without knowing names, and some leave what is listed. Whatever type
-- the keys of the names have: without messages they mean nothing.
redis.call('UNLINK', list, names, ids)
if redis.call('EXISTS', taken, destination, first) == 0 then redis.call('UNLINK', held) end
if redis.call('EXISTS', crons) == 1 then return { now_us, 'OK', 0 } end
redis.call('SREM', registry, name)
if redis.call('EXISTS', taken) == 0 then Record.prune(queue, name, now_us) end
return { now_us, 'OK', 1 }
