-- Forget members that were put aside.
--
-- KEYS[1]   string  call        number and reply of this link's last call
-- KEYS[2]   hash    queue_key   true name of the queue
-- KEYS[3]   zset    quarantine  unreadable member -> its score
-- ARGV[1]   int     number      of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4..] bytes   members     none: the first 1,000
-- RETURN    { now_us, 'OK', dropped }, { now_us, 'LATE' | 'SETTLED' },
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST      O(log quarantined) for each member

local call_key, queue_key, quarantine = unpack(KEYS)
local number, valid_until_ms, queue = ARGV[1], ARGV[2], ARGV[3]

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = guard(call_key, number, valid_until_ms, now_us / 1000)
if refused then return { now_us, refused } end
refused = refuse(now_us, queue_key, queue, { quarantine, 'zset' })
if refused then return applied(call_key, number, refused) end

local dropped = 0
if #ARGV < 4 then dropped = redis.call('ZREMRANGEBYRANK', quarantine, 0, 999) end
for i = 4, #ARGV do dropped = dropped + redis.call('ZREM', quarantine, ARGV[i]) end
return applied(call_key, number, { now_us, 'OK', dropped })
