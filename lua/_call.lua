-- The call key of a lane: whether a call may still run, and what is stored of it so that a lost
-- reply can be settled.
-- Keeps: a call is applied at most once, and never after `valid_until`.
--
-- KEYS[1] is the call key, ARGV[1] the number of the call, ARGV[2] its `valid_until`. The key holds
-- `<number> <msgpack of the reply>` of the last call applied, or `<number>` of the last one settled
-- as void. There is one call in flight for each call key, numbers grow.

-- Beyond any `valid_until`, after which a late call refuses itself.
Call.expiry_s = '600'

-- Whether the call key was found to hold another type. Another refusal ends the script.
function Call.is_foreign(found)
  if type(found) ~= 'table' then return false end
  return string.find(found.err, 'WRONGTYPE', 1, true) or error(found.err, 0)
end

-- The reply that refuses the call, or nil. SETTLED goes first: LATE promises that the call was not
-- applied, a repeated one may have been. It is also said where the key cannot be used, so that the
-- lane takes another one.
function Call.refusal(now_us)
  local stored = redis.pcall('GETRANGE', KEYS[1], '0', '19')
  if Call.is_foreign(stored) then return { now_us, 'SETTLED' } end
  local last = tonumber(string.match(stored, '^%d+'))
  if last and last >= tonumber(ARGV[1]) then return { now_us, 'SETTLED' } end
  if now_us / 1000 > tonumber(ARGV[2]) then return { now_us, 'LATE' } end
end

-- Stores the reply, and gives it. Out of memory refuses this SET only where the call wrote nothing:
-- then it may be repeated.
function Call.applied(reply)
  redis.pcall('SET', KEYS[1], ARGV[1] .. ' ' .. cmsgpack.pack(reply), 'EX', Call.expiry_s)
  return reply
end
