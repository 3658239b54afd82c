-- What every script does before and after its work: whether the call may still run, whether the
-- queue is the one that owns the keys and keeps an order list, what is stored so that a lost reply
-- can be settled.
-- Knows nothing of members. Keeps: a call is applied at most once, and never after `valid_until`.
--
-- The call key holds `<number> <msgpack of the reply>` of the last call applied, or `<number>` of
-- the last one settled as void. There is one call in flight for each call key, numbers grow.

local call_expiry_s = '600' -- far beyond any `valid_until`, after which a late call refuses itself

-- SETTLED goes first: LATE promises that the call was not applied, a repeated one may have been.
local function guard(call_key, number, valid_until_ms, now_ms)
  local stored = redis.call('GETRANGE', call_key, '0', '19')
  local last = tonumber(string.match(stored, '^%d+'))
  if last and last >= tonumber(number) then return 'SETTLED' end
  if now_ms > tonumber(valid_until_ms) then return 'LATE' end
end

-- Out of memory refuses this SET only where the call wrote nothing: then it may be repeated.
local function applied(call_key, number, reply)
  redis.pcall('SET', call_key, number .. ' ' .. cmsgpack.pack(reply), 'EX', call_expiry_s)
  return reply
end

-- The reply that refuses the call, or nil; then also whether the queue keeps an order list.
-- `kinds` = key, type, key, type...
local function refuse(now_us, queue_key, queue, kinds)
  kinds[#kinds + 1], kinds[#kinds + 2] = queue_key, 'hash'
  for i = 1, #kinds, 2 do
    local kind = redis.call('TYPE', kinds[i]).ok
    if kind ~= 'none' and kind ~= kinds[i + 1] then return { now_us, 'WRONGTYPE', kinds[i] } end
  end
  local recorded = redis.call('HMGET', queue_key, 'name', 'order_list')
  local owner = recorded[1]
  if owner and owner ~= queue then return { now_us, 'BADQUEUE', owner } end
  return nil, recorded[2] ~= 'off'
end
