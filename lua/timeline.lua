-- Count the pending messages between moments that follow one another.
--
-- KEYS[1]   zset  timeout  member -> due, Unix ms
-- KEYS[2]   hash  record   true name of the queue
-- KEYS[3]   none  guard    the channel's name, never a key: see _begin.lua
-- ARGV[1]   text  queue
-- ARGV[2..] int   moments  Unix ms, ascending
-- RETURN    { now_us, 'OK', count... }: those due from each moment on and before the next one;
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST      O(log pending) for each; Redis compares the first and the last member of each count
--           with themselves, which takes 45 us a MiB

local timeout, record = KEYS[1], KEYS[2]

local now_us, queue, refused = Begin.read(record, ARGV[1], { timeout, 'zset' })
if refused then return refused end

local reply = { now_us, 'OK' }
for i = 2, #ARGV - 1 do
  reply[i + 1] = redis.call('ZCOUNT', timeout, ARGV[i], '(' .. ARGV[i + 1])
end
return reply
