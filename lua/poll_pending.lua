-- Take pending messages by id and hand out their payloads, where no order list is kept; at most
-- once.
--
-- KEYS[1]   string  call       number of this link's last call
-- KEYS[2]   zset    timeout    member -> due, Unix ms
-- KEYS[3]   hash    record     true name of the queue
-- KEYS[4]   hash    names      name -> message id
-- KEYS[5]   hash    ids        hex of the id -> name
-- KEYS[6]   none    guard      the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number     of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   int     bytes_max  of members; one message is taken however large
-- ARGV[5]   int     message_max  bytes of a member beyond which it is not taken
-- ARGV[6..] text    messages   score, id bytes of each
-- RETURN    { now_us, 'OK', full 0 | 1, payload... }, full where bytes_max ended it; those that are
--           not pending any more are left out.
--           { now_us, 'TOOBIG', bytes, message id, message_max } where the first is larger; another
--           one that is ends the reply before it, full. { now_us, 'LATE' | 'SETTLED' },
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
--           The payloads are not stored for settling: there the reply is { now_us, 'APPLIED' }
-- COST      O(log pending) for each message

local _, timeout, record, names, ids = unpack(KEYS)
local _, _, _, bytes_max, message_max = unpack(ARGV, 1, 5)

local now_us, queue, refused = Begin.write(record, ARGV[3], {
  timeout, 'zset', names, 'hash', ids, 'hash',
})
if refused then return refused end

local reply, bytes, taken = { now_us, 'OK', 0 }, 0, {}
bytes_max, message_max = tonumber(bytes_max), tonumber(message_max)
for i = 6, #ARGV, 2 do
  local member = Find.member(timeout, names, ARGV[i], ARGV[i + 1])
  if member then
    if #member > message_max and bytes == 0 then
      local id = Member.message_id(ARGV[i], ARGV[i + 1])
      return Call.applied({ now_us, 'TOOBIG', #member, id, message_max })
    end
    if #member > message_max or (bytes + #member > bytes_max and bytes > 0) then
      reply[3] = 1
      break
    end
    bytes = bytes + #member
    local payload, id = Member.read(member)
    redis.call('ZREM', timeout, member)
    reply[#reply + 1] = payload
    taken[#taken + 1] = Member.hex(id)
  end
end
Names.forget(timeout, names, ids, taken)
Call.applied({ now_us, 'APPLIED' })
return reply
