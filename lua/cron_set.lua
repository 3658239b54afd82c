-- Set a schedule, or change one. One that comes at the same moments as before keeps its next
-- occurrence, one that is paused stays so.
--
-- KEYS[1]  string  call         number and reply of this link's last call
-- KEYS[2]  list    destination
-- KEYS[3]  zset    timeout      says whose the keys are where nothing is recorded
-- KEYS[4]  hash    record       true name
-- KEYS[5]  zset    crons        name -> next occurrence, ms; inf while it is paused
-- KEYS[6]  hash    cron         specifications, payloads and last moments: see _cron.lua
-- KEYS[7]  none    guard        the channel's name, never a key: see _begin.lua
-- ARGV[1]  int     number       of this call
-- ARGV[2]  int     valid_until_ms
-- ARGV[3]  text    queue
-- ARGV[4]  text    name
-- ARGV[5]  text    spec         JSON
-- ARGV[6]  text    payload
-- ARGV[7]  int     next_ms      its next occurrence
-- ARGV[8]  int     last_ms      nothing at or before it is offered
-- ARGV[9]  int     most         schedules that the queue may have
-- RETURN   { now_us, 'OK', next }: as the zset has it now; { now_us, 'FULL' },
--          { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--          { now_us, 'BADQUEUE', true name }
-- COST     O(log schedules)

local _, destination, timeout, record, crons, cron = unpack(KEYS)
local _, _, queue_name, name, spec, payload, next_ms, last_ms, most = unpack(ARGV)

local now_us, queue, refused = Begin.write(record, queue_name, {
  destination, 'list', timeout, 'zset', crons, 'zset', cron, 'hash',
})
if refused then return refused end

local score = redis.call('ZSCORE', crons, name)
if not score and redis.call('ZCARD', crons) >= tonumber(most) then
  return Call.applied({ now_us, 'FULL' })
end

-- At which moments it comes.
local function moments(text)
  local is_json, read = pcall(cjson.decode, text)
  if is_json and type(read) == 'table' then return tostring(read.expr) .. tostring(read.tz) end
end
local before = Cron.spec(cron, name)
local is_paused = score and tonumber(score) >= 1e15
if not is_paused and (not score or moments(before) ~= moments(spec)) then score = next_ms end

-- Refused at Redis's limit of memory, and then nothing is written.
redis.call('HSET', cron, 'spec:' .. name, spec, 'payload:' .. name, payload,
  'last:' .. name, last_ms)
redis.call('ZADD', crons, score, name)
if queue.name ~= queue_name then redis.call('HSET', record, 'name', queue_name) end
return Call.applied({ now_us, 'OK', score })
