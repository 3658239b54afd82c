-- Schedules of a queue: what of them is recorded, by name.
-- Keeps: in the zset of next occurrences stand exactly the schedules that there are.
--
--   crons  zset  name -> next occurrence, Unix ms; inf while it is paused
--   cron   hash  spec:<name> -> JSON: expr, tz, overlap, catchup
--                payload:<name> -> payload of each occurrence
--                last:<name> -> nothing at or before this moment, Unix ms, is offered again

local spec_max = 2048 -- bytes; a longer one is not ours

-- The specification, and the bytes of the payload; '' where there is none that can be used.
function Cron.spec(cron, name)
  local spec, payload = 'spec:' .. name, 'payload:' .. name
  local bytes = Lease.payload_bytes(cron, payload)
  if Lease.payload_bytes(cron, spec) > spec_max then return '', 0 end
  if bytes == 0 and not redis.call('HGET', cron, payload) then return '', 0 end
  return redis.call('HGET', cron, spec) or '', bytes
end

-- The moment at or before which nothing is offered again, as it is noted; '' where it is not ours.
function Cron.last(cron, name)
  local last = 'last:' .. name
  return Lease.payload_bytes(cron, last) <= 40 and redis.call('HGET', cron, last) or ''
end

-- When the next of all occurrences comes, as Redis writes it; '' if there is no schedule.
function Cron.head(crons)
  return redis.call('ZRANGE', crons, '0', '0', 'WITHSCORES')[2] or ''
end
