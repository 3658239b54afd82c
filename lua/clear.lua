-- Drop all pending messages. A pause, the quarantine and what is delivered stay.
--
-- KEYS[1]  string  call       number and reply of this link's last call
-- KEYS[2]  zset    timeout    member -> due, Unix ms
-- KEYS[3]  list    list       the members in offer order
-- KEYS[4]  hash    queue_key  true name of the queue
-- KEYS[5]  hash    names      name -> message id
-- KEYS[6]  hash    ids        hex of the id -> name
-- ARGV[1]  int     number     of this call
-- ARGV[2]  int     valid_until_ms
-- ARGV[3]  text    queue
-- RETURN   { now_us, 'OK', dropped }, { now_us, 'LATE' | 'SETTLED' },
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(1); the memory is freed beside the commands

local call_key, timeout, list, queue_key, names, ids = unpack(KEYS)
local number, valid_until_ms, queue = unpack(ARGV)

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = guard(call_key, number, valid_until_ms, now_us / 1000)
if refused then return { now_us, refused } end
refused = refuse(now_us, queue_key, queue, {
  timeout, 'zset', list, 'list', names, 'hash', ids, 'hash',
})
if refused then return applied(call_key, number, refused) end

local dropped = redis.call('ZCARD', timeout)
redis.call('UNLINK', timeout, list, names, ids)
return applied(call_key, number, { now_us, 'OK', dropped })
