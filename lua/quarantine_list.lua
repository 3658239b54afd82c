-- Read what was put aside, by due time.
--
-- KEYS[1]  zset  quarantine  unreadable member -> its score
-- KEYS[2]  hash  record      true name of the queue
-- KEYS[3]  none  guard       the channel's name, never a key: see _begin.lua
-- ARGV[1]  text  queue
-- ARGV[2]  int   count       members at most
-- ARGV[3]  int   bytes_max   of members; one is read however large
-- ARGV[4]  int   message_max  bytes of a member beyond which it is not handed out
-- RETURN   { now_us, 'OK', member, score, ... }; { now_us, 'TOOBIG', bytes, score, message_max }
--          where the first is larger; another one that is ends the reply before it.
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(count log n)

local quarantine, record = KEYS[1], KEYS[2]
local count, bytes_max = tonumber(ARGV[2]), tonumber(ARGV[3])
local message_max = tonumber(ARGV[4])

local now_us, queue, refused = Begin.read(record, ARGV[1], { quarantine, 'zset' })
if refused then return refused end

local reply, bytes = { now_us, 'OK' }, 0
for rank = 0, count - 1 do
  local found = redis.call('ZRANGE', quarantine, rank, rank, 'WITHSCORES')
  local size = #(found[1] or '')
  bytes = bytes + size
  if size > message_max and rank == 0 then
    return { now_us, 'TOOBIG', size, found[2], message_max }
  end
  if not found[1] or size > message_max or (bytes > bytes_max and rank > 0) then break end
  reply[#reply + 1], reply[#reply + 2] = found[1], found[2]
end
return reply
