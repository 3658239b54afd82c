-- Say whether a call was applied, and make sure that it never can be later.
--
-- KEYS[1]  string  call    number and reply of this link's last call
-- KEYS[2]  none    guard   the channel's name, never a key: see _begin.lua
-- ARGV[1]  int     number  of the call in doubt
-- ARGV[2]  int     valid_until_ms  of that call
-- RETURN   { now_us, 'APPLIED', its reply, from its own now_us on... }, { now_us, 'NOT' },
--          { now_us, 'SETTLED' } if this one can't be told: a later number is stored, or what no
--          call stores, or what it stored has expired since Redis's clock stepped ahead
-- COST     O(size of the reply), at most 16 MiB

local number = tonumber(ARGV[1])
-- Bytes: more than an error for each of 10,000 groups takes, with names of 1 KiB.
local reply_max = 16777215
-- By a clock that makes no step a settlement is over 120 s behind `valid_until`, and what a call
-- stored expires 480 s behind it: no setting of a timeout is above 120 s.
local stepped_ms = 300000

local now_us = Begin.now()
local stored = redis.pcall('GETRANGE', KEYS[1], '0', '19')
if Call.is_foreign(stored) then return { now_us, 'SETTLED' } end
local digits, packed = string.match(stored, '^(%d+)( ?)')
local last = tonumber(digits)
if last == number and packed == ' ' then
  -- Cut off where it is larger than any reply, since then it cannot be read.
  stored = redis.call('GETRANGE', KEYS[1], #digits + 1, reply_max)
  local is_read, reply = pcall(cmsgpack.unpack, stored)
  if not is_read or type(reply) ~= 'table' then return { now_us, 'SETTLED' } end
  -- One by one: `unpack` has room for 8,000.
  local answer = { now_us, 'APPLIED' }
  for i = 1, #reply do answer[i + 2] = reply[i] end
  return answer
end
if stored == '' and now_us / 1000 - tonumber(ARGV[2]) > stepped_ms then
  return { now_us, 'SETTLED' }
end
if stored ~= '' and (not last or last > number) then return { now_us, 'SETTLED' } end
-- DEL frees, so the SET is let through even out of memory.
local freed = redis.pcall('DEL', KEYS[1])
if type(freed) ~= 'number' then
  -- A master that was just promoted may have too few replicas to write (NOREPLICAS). A call refuses
  -- itself behind its `valid_until`, so nothing has to be kept for that.
  local is_late = now_us / 1000 > tonumber(ARGV[2])
  return is_late and string.find(freed.err, 'NOREPLICAS', 1, true) and { now_us, 'NOT' } or freed
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', Call.expiry_s)
return { now_us, 'NOT' }
