-- Give leased messages back: they wait for a retry, or are dead.
--
-- KEYS[1]   string  call      number and reply of this link's last call
-- KEYS[2]   zset    timeout   member -> due, Unix ms; says only whose the keys are
-- KEYS[3]   hash    record    true name of the queue
-- KEYS[4]   zset    leased    id -> until, ms
-- KEYS[5]   zset    retry     id -> when it can be taken again, ms
-- KEYS[6]   zset    dead      id -> died, ms
-- KEYS[7]   hash    taken     id -> payload
-- KEYS[8]   hash    tries     id -> deliveries, base, reason: see _lease.lua
-- KEYS[9]   none    guard     the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number    of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   text    mode      'FAIL' counts; 'SILENT' does not; 'FATAL': dead at once
-- ARGV[5]   int     delay     ms until it can be taken again; '': the backoff, or of SILENT 0
-- ARGV[6]   text    reason    '': that of before, if there is one
-- ARGV[7]   int     limit     deliveries that count, then a message is dead; 0: none
-- ARGV[8]   int     min       ms of the backoff after the first attempt
-- ARGV[9]   int     max       ms of the longest
-- ARGV[10]  int     jitter    percent that a wait may be shorter. These four of a queue that sets
--                             none of its own
-- ARGV[11..] bytes  receipts  id, delivery number, chance (0..999) of each
-- RETURN    { now_us, 'OK', nacked, died, next }: how many were given back, those that died
--           included; next: when the first of them can be taken again, ms, '' for none.
--           { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--           { now_us, 'BADQUEUE', true name }
-- COST      O(log leased) for each receipt

local keys = {
  timeout = KEYS[2], leased = KEYS[4], retry = KEYS[5], dead = KEYS[6], taken = KEYS[7],
  tries = KEYS[8],
}
local mode, delay, said = ARGV[4], tonumber(ARGV[5]), ARGV[6]
-- What comes back at once again and again must not become a loop.
local free_deliveries, least_ms = 2, 100

local now_us, queue, refused = Begin.write(KEYS[3], ARGV[3], Lease.kinds(keys))
if refused then return refused end
local _, limit = Lease.terms(queue, nil, ARGV[7])
local min_ms = Record.setting(queue.settings, 'backoff_min_ms') or tonumber(ARGV[8])
local max_ms = Record.setting(queue.settings, 'backoff_max_ms') or tonumber(ARGV[9])
local jitter = (Record.setting(queue.settings, 'jitter') or tonumber(ARGV[10])) / 100

-- Chance is the broker's: in Redis's Lua each call has the same random numbers.
local function wait_ms(attempt, deliveries, chance)
  local wait = delay
  if not wait and mode == 'SILENT' then wait = 0 end
  if not wait then
    -- An attempt that does not count any more has the wait of the first.
    wait = math.min(max_ms, min_ms * 2 ^ math.max(0, math.min(attempt - 1, 50)))
    wait = math.floor(wait * (1 - jitter * chance / 999))
  end
  return deliveries > free_deliveries and math.max(wait, least_ms) or wait
end

local now_ms = math.ceil(now_us / 1000)
local nacked, died, least, seen = 0, 0, nil, {}
for i = 11, #ARGV, 3 do
  local id = ARGV[i]
  local place, deliveries, base, reason
  if not seen[id] then place, deliveries, base, reason = Lease.held(keys, id, ARGV[i + 1]) end
  if place == 'leased' or place == 'retry' then
    seen[id], nacked = true, nacked + 1
    local attempt = deliveries - base
    -- Once for each delivery, which may be given back again for another time.
    if mode == 'SILENT' and place == 'leased' then base = math.min(base + 1, deliveries) end
    if said ~= '' then reason = said end
    redis.call('ZREM', keys[place], id)
    if mode == 'FATAL' or (mode == 'FAIL' and limit > 0 and attempt >= limit) then
      died = died + 1
      redis.call('ZADD', keys.dead, now_ms, id)
    else
      local from = now_ms + wait_ms(attempt, deliveries, tonumber(ARGV[i + 2]))
      redis.call('ZADD', keys.retry, string.format('%.0f', from), id)
      if not least or from < least then least = from end
    end
    Lease.note_tries(keys.tries, id, deliveries, base, reason)
  end
end
return Call.applied({ now_us, 'OK', nacked, died, least and string.format('%.0f', least) or '' })
