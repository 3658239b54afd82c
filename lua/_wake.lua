-- Tells takers at other brokers that something can be had, or will be before they expect it.
-- Keeps: nothing depends on it, since takers look by themselves; a user whose rights are those that
-- earlier brokers asked for may not publish there.
--
--   delay_broker_wake:{q}  channel  '<moment> <call key>': from when on, ms, 0: now; and the first
--                                   key of the call, by which its broker knows that it is its own

function Wake.publish(record, moment)
  local channel = 'delay_broker_wake:' .. string.sub(record, #'delay_broker_queue:' + 1)
  redis.pcall('PUBLISH', channel, moment .. ' ' .. KEYS[1])
end

-- Messages wait for a retry from this moment on: nothing is new to those who expect one before it.
function Wake.retry(record, retry, moment)
  if redis.call('ZCOUNT', retry, '-inf', '(' .. moment) == 0 then Wake.publish(record, moment) end
end

-- Leases have ended, and before that no other message could be leased: true if so.
function Wake.room(queue, leased, ended)
  local max = ended > 0 and Record.setting(queue.settings, 'in_flight_max') or 0
  local full = max > 0 and redis.call('ZCARD', leased) + ended >= max
  if full then Wake.publish(queue.key, '0') end
  return full
end
