-- Say whether a call was applied, and make sure that it never can be later.
--
-- KEYS[1]  string  call    number and reply of this link's last call
-- ARGV[1]  int     number  of the call in doubt
-- RETURN   { now_us, 'APPLIED', its reply, from its own now_us on... }, { now_us, 'NOT' },
--          { now_us, 'SETTLED' } if a later number is stored, so that this one can't be told
-- COST     O(size of the reply)

local call_key = KEYS[1]
local number = ARGV[1]

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local stored = redis.call('GET', call_key) or ''
local digits, packed = string.match(stored, '^(%d+)( ?)')
local last = tonumber(digits)
if last and last > tonumber(number) then return { now_us, 'SETTLED' } end
if last == tonumber(number) and packed == ' ' then
  local reply = cmsgpack.unpack(string.sub(stored, #digits + 2))
  return { now_us, 'APPLIED', unpack(reply) }
end
-- DEL frees, so the SET is let through even out of memory.
redis.call('DEL', call_key)
redis.call('SET', call_key, number, 'EX', call_expiry_s)
return { now_us, 'NOT' }
