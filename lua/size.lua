-- Count the pending messages of one queue.
--
-- KEYS[1]  zset  timeout    member -> due, Unix ms
-- KEYS[2]  hash  record     true name of the queue
-- KEYS[3]  none  guard      the channel's name, never a key: see _begin.lua
-- ARGV[1]  text  queue
-- RETURN   { now_us, 'OK', pending },
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(1)

local timeout, record = KEYS[1], KEYS[2]

local now_us, queue, refused = Begin.read(record, ARGV[1], { timeout, 'zset' })
if refused then return refused end
return { now_us, 'OK', redis.call('ZCARD', timeout) }
