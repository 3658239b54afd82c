-- Until when a queue is paused: by itself, or together with all others.
-- Knows no key. What is recorded and is no time counts as no pause.

-- The later end of both pauses: '' if there is none, ms, or -1 (until resumed); and when the last
-- one ended, 0 if none did. `own` and `of_all`: `paused_until` as it was read.
function Pause.of(own, of_all, now_ms)
  local until_ms, ended_ms = 0, 0
  local recorded = { own, of_all }
  for i = 1, 2 do
    -- Nothing recorded is false, an error of Redis a table.
    local ms = type(recorded[i]) == 'string' and tonumber(recorded[i]) or 0
    if ms == -1 then
      until_ms = math.huge
    elseif ms > now_ms and ms < 1e15 then
      until_ms = math.max(until_ms, ms)
    elseif ms > ended_ms and ms <= now_ms then
      ended_ms = ms
    end
  end
  if until_ms == 0 then return '', ended_ms end
  return until_ms == math.huge and '-1' or string.format('%.0f', until_ms), 0
end
