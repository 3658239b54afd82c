-- Say which of many queues have a stream as their destination, and when a retry of theirs is due.
--
-- KEYS[1..]        of each queue in turn, at most 500 of them:
--           hash  record  true name of the queue, settings
--           zset  retry   id and group -> when it comes again, ms
-- RETURN    { now_us, 'OK', name, is_stream, next... }: of each queue; name: the recorded one, ''
--           if none; is_stream: 1 | 0; next: when the first retry is due, ms, or ''
-- COST      O(1) for each queue

local keys = KEYS

local reply = { Begin.now(), 'OK' }
for i = 1, #keys, 2 do
  -- Nothing recorded is false, another type a table.
  local found = redis.pcall('HMGET', keys[i], 'name', 'settings')
  local at, is_stream = #reply, not found.err and Record.is_stream(found[2])
  local head = is_stream and redis.pcall('ZRANGE', keys[i + 1], 0, 0, 'WITHSCORES') or {}
  reply[at + 1], reply[at + 2] = found[1] or '', is_stream and 1 or 0
  reply[at + 3] = not head.err and head[2] or ''
end
return reply
