-- Put members from quarantine back to pending, with their scores.
--
-- KEYS[1]   string  call        number and reply of this link's last call
-- KEYS[2]   zset    timeout     member -> due, Unix ms
-- KEYS[3]   list    list        the members in offer order
-- KEYS[4]   hash    queue_key   true name, order_list
-- KEYS[5]   zset    quarantine  unreadable member -> its score
-- ARGV[1]   int     number      of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4..] bytes   members     none: the first 1,000
-- RETURN    { now_us, 'OK', restored, head 0 | 1 }, { now_us, 'LATE' | 'SETTLED' },
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
--           head: the head is one of them now, and published
-- COST      O(log pending) for each member

local call_key, timeout, list, queue_key, quarantine = unpack(KEYS)
local number, valid_until_ms, queue = ARGV[1], ARGV[2], ARGV[3]

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = guard(call_key, number, valid_until_ms, now_us / 1000)
if refused then return { now_us, refused } end
local keeps_list
refused, keeps_list = refuse(now_us, queue_key, queue, {
  timeout, 'zset', list, 'list', quarantine, 'zset',
})
if refused then return applied(call_key, number, refused) end

local members = {}
for i = 4, #ARGV do members[i - 3] = ARGV[i] end
if #members == 0 then members = redis.call('ZRANGE', quarantine, 0, 999) end

-- A member that is pending again already (a foreign program put it there) only leaves quarantine.
local restored, mine = 0, {}
for i = 1, #members do
  local score = redis.call('ZSCORE', quarantine, members[i])
  if score then
    redis.call('ZREM', quarantine, members[i])
    if redis.call('ZADD', timeout, 'NX', score, members[i]) == 1 then
      if keeps_list then redis.call('RPUSH', list, members[i]) end
      mine[members[i]] = true
    end
    restored = restored + 1
  end
end
local head = next(mine) and publish_head(timeout, list, mine) or 0
return applied(call_key, number, { now_us, 'OK', restored, head })
