-- Drop all pending messages. A pause, the quarantine and what is delivered stay.
--
-- KEYS[1]  string  call       number and reply of this link's last call
-- KEYS[2]  zset    timeout    member -> due, Unix ms
-- KEYS[3]  list    list       the members in offer order
-- KEYS[4]  hash    record     true name of the queue
-- KEYS[5]  hash    names      name -> message id
-- KEYS[6]  hash    ids        hex of the id -> name
-- KEYS[7]  none    guard      the channel's name, never a key: see _begin.lua
-- ARGV[1]  int     number     of this call
-- ARGV[2]  int     valid_until_ms
-- ARGV[3]  text    queue
-- RETURN   { now_us, 'OK', dropped }, { now_us, 'LATE' | 'SETTLED' },
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(1); the memory is freed beside the commands

local _, timeout, list, record, names, ids = unpack(KEYS)

local now_us, queue, refused = Begin.write(record, ARGV[3], {
  timeout, 'zset', list, 'list', names, 'hash', ids, 'hash',
})
if refused then return refused end

local dropped = redis.call('ZCARD', timeout)
redis.call('UNLINK', timeout, list, names, ids)
return Call.applied({ now_us, 'OK', dropped })
