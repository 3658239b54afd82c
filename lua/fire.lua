-- Make messages due now; those that are due already stay as they are.
--
-- KEYS[1]   string  call       number and reply of this link's last call
-- KEYS[2]   zset    timeout    member -> due, Unix ms
-- KEYS[3]   list    list       names the channel; not read
-- KEYS[4]   hash    queue_key  true name of the queue
-- KEYS[5]   hash    names      name -> message id
-- KEYS[6]   hash    ids        hex of the id -> name
-- ARGV[1]   int     number     of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4..] text    messages   score, id bytes; or '', name; of each message
-- RETURN    { now_us, 'OK', fired, head 0 | 1 }, { now_us, 'LATE' | 'SETTLED' },
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
--           fired counts pending ones, due before or not. head: one whose score changed is now
--           the head, and published
-- COST      O(log pending) for each message

local call_key, timeout, list, queue_key, names, ids = unpack(KEYS)
local number, valid_until_ms, queue = ARGV[1], ARGV[2], ARGV[3]

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = guard(call_key, number, valid_until_ms, now_us / 1000)
if refused then return { now_us, refused } end
refused = refuse(now_us, queue_key, queue, { timeout, 'zset', names, 'hash', ids, 'hash' })
if refused then return applied(call_key, number, refused) end

-- A message named twice is found twice by its name, but no longer by an id with the old score.
local now_ms = math.floor(now_us / 1000)
local now_text = string.format('%d', now_ms)
local seen, earlier, fired = {}, {}, 0
for i = 4, #ARGV, 2 do
  local member, score = find(timeout, names, ARGV[i], ARGV[i + 1])
  if member and not seen[member] then
    seen[member] = true
    fired = fired + 1
    if tonumber(score) > now_ms then
      redis.call('ZADD', timeout, 'XX', now_text, member)
      local _, id = read(member)
      rescore(names, ids, now_text, id)
      earlier[member] = true
    end
  end
end
local head = next(earlier) and publish_head(timeout, list, earlier) or 0
return applied(call_key, number, { now_us, 'OK', fired, head })
