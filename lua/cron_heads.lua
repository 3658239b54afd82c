-- Read when the next occurrence of the schedules of many queues comes.
--
-- KEYS[1..]        of each queue in turn, at most 500 of them:
--           zset  crons   name -> next occurrence, ms; inf while it is paused
--           hash  record  true name of the queue
-- RETURN    { now_us, 'OK', name, head... }: of each queue; name: the recorded one, '' if none;
--           head: the least next occurrence, '' if there is no schedule, 'WRONGTYPE' if the key
--           holds no zset
-- COST      O(1) for each queue

local keys = KEYS

local reply = { Begin.now(), 'OK' }
for i = 1, #keys, 2 do
  local head = redis.pcall('ZRANGE', keys[i], '0', '0', 'WITHSCORES')
  -- Nothing recorded is false, another type a table.
  local name = redis.pcall('HGET', keys[i + 1], 'name')
  reply[i + 2] = type(name) == 'string' and name or ''
  reply[i + 3] = head.err and 'WRONGTYPE' or head[2] or ''
end
return reply
