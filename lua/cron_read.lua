-- Read schedules of a queue: those that are due, all names, or some by name.
--
-- KEYS[1]   zset  timeout  says whose the keys are where nothing is recorded
-- KEYS[2]   hash  record   true name
-- KEYS[3]   zset  crons    name -> next occurrence, ms; inf while it is paused
-- KEYS[4]   hash  cron     specifications, payloads and last moments: see _cron.lua
-- KEYS[5]   none  guard    the channel's name, never a key: see _begin.lua
-- ARGV[1]   text  queue
-- ARGV[2]   text  which    'DUE', 'NAMES' or 'THESE'
-- ARGV[3]   int   most     schedules that are due, or names; at most
-- ARGV[4..] text  names    where these are wanted
-- RETURN    { now_us, 'OK', head, schedule... }; head: the least next occurrence, '' if there is
--           no schedule. Of each schedule: name, next, spec, last, bytes of its payload; spec: ''
--           where it cannot be used; last: '' if none is noted. A name that there is not is left
--           out. Of 'NAMES' the names alone.
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST      O(log schedules) for each one that is read

local timeout, record, crons, cron = unpack(KEYS)
local queue_name, which, most = unpack(ARGV)

local now_us, queue, refused = Begin.read(record, queue_name, {
  timeout, 'zset', crons, 'zset', cron, 'hash',
})
if refused then return refused end

local reply = { now_us, 'OK', Cron.head(crons) }
local names = { unpack(ARGV, 4) }
if which == 'NAMES' then
  names = redis.call('ZRANGE', crons, 0, most - 1)
elseif which == 'DUE' then
  local now_ms = math.floor(now_us / 1000)
  names = redis.call('ZRANGE', crons, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, most)
end
for i = 1, #names do
  local name = names[i]
  local score = which ~= 'NAMES' and redis.call('ZSCORE', crons, name)
  local size = #reply
  if which == 'NAMES' then
    reply[size + 1] = name
  elseif score then
    local spec, bytes = Cron.spec(cron, name)
    reply[size + 1], reply[size + 2], reply[size + 3] = name, score, spec
    reply[size + 4], reply[size + 5] = Cron.last(cron, name), bytes
  end
end
return reply
