-- Read what was put aside, by due time.
--
-- KEYS[1]  zset  quarantine  unreadable member -> its score
-- KEYS[2]  hash  queue_key   true name of the queue
-- ARGV[1]  text  queue
-- ARGV[2]  int   count       members at most
-- ARGV[3]  int   bytes_max   of members; one is read however large
-- RETURN   { now_us, 'OK', member, score, ... },
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(count log n)

local quarantine, queue_key = KEYS[1], KEYS[2]
local queue, count, bytes_max = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = refuse(now_us, queue_key, queue, { quarantine, 'zset' })
if refused then return refused end

local reply, bytes = { now_us, 'OK' }, 0
for rank = 0, count - 1 do
  local found = redis.call('ZRANGE', quarantine, rank, rank, 'WITHSCORES')
  bytes = bytes + #(found[1] or '')
  if not found[1] or (bytes > bytes_max and rank > 0) then break end
  reply[#reply + 1], reply[#reply + 2] = found[1], found[2]
end
return reply
