-- How many messages of a queue may be delivered now, where its rate is limited: a bucket of tokens
-- that fills by Redis's time, so that the rate is that of all brokers together.
--
--   tokens  in the record: '<tokens> <at>', those that were left at that moment, ms

-- The tokens now, and when the first of them came, ms: 0 if it was there before. The rate is in
-- messages an hour.
function Rate.tokens(queue, now_ms)
  local rate = Record.setting(queue.settings, 'rate')
  local burst = Record.setting(queue.settings, 'burst') or 0
  -- A tenth of a second's.
  if burst == 0 then burst = math.max(1, rate / 36000) end
  local noted = redis.call('HGET', queue.key, 'tokens') or ''
  local left, at = string.match(noted, '^(%d+%.%d+) (%d+%.%d+)$')
  left, at = tonumber(left) or burst, tonumber(at) or now_ms
  local tokens = math.min(burst, left + math.max(0, now_ms - at) * rate / 3.6e6)
  local came_ms = left < 1 and math.min(now_ms, at + (1 - left) * 3.6e6 / rate) or 0
  return tokens, came_ms
end

-- When there is one to take, ms.
function Rate.next_ms(queue, tokens, now_ms)
  if tokens >= 1 then return now_ms end
  return now_ms + (1 - tokens) * 3.6e6 / Record.setting(queue.settings, 'rate')
end

function Rate.note(queue, tokens, now_ms)
  redis.call('HSET', queue.key, 'tokens', string.format('%.6f %.3f', tokens, now_ms))
end
