-- Read what was put aside, by due time.
--
-- KEYS[1]  zset  quarantine  unreadable member -> its score
-- KEYS[2]  hash  queue_key   true name of the queue
-- ARGV[1]  text  queue
-- ARGV[2]  int   count       members at most
-- RETURN   { now_us, 'OK', member, score, ... },
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(count)

local quarantine, queue_key = KEYS[1], KEYS[2]
local queue, count = ARGV[1], tonumber(ARGV[2])

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = refuse(now_us, queue_key, queue, { quarantine, 'zset' })
if refused then return refused end

local reply = { now_us, 'OK' }
if count < 1 then return reply end
local found = redis.call('ZRANGE', quarantine, 0, count - 1, 'WITHSCORES')
for i = 1, #found do reply[i + 2] = found[i] end
return reply
