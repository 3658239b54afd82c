-- Give leased messages back, for one client or several: they wait for a retry, or are dead.
--
-- KEYS[1]   string  call      number and reply of this link's last call
-- KEYS[2]   zset    timeout   member -> due, Unix ms; says only whose the keys are
-- KEYS[3]   hash    record    true name of the queue
-- KEYS[4]   zset    leased    id -> until, ms
-- KEYS[5]   zset    retry     id -> when it can be taken again, ms
-- KEYS[6]   zset    dead      id -> died, ms
-- KEYS[7]   hash    taken     id -> payload
-- KEYS[8]   hash    tries     id -> deliveries, base, reason: see _lease.lua
-- KEYS[9]   hash    held      names that are held until their messages are done: see _held.lua
-- KEYS[10]  none    guard     the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number    of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   text    mode      'FAIL' counts; 'SILENT' does not; 'FATAL': dead at once; 'TIED': as
--                             FAIL without a wait, of those only that are leased; the reason
--                             counts where there is none
-- ARGV[5]   int     delay     ms until it can be taken again; '': the backoff, or of SILENT 0
-- ARGV[6]   text    reason    '': that of before, if there is one
-- ARGV[7]   int     limit     deliveries that count, then a message is dead; 0: none. That of the
--                             message goes before it
-- ARGV[8]   int     min       ms of the backoff after the first attempt
-- ARGV[9]   int     max       ms of the longest
-- ARGV[10]  int     jitter    percent that a wait may be shorter. These four of a queue that sets
--                             none of its own
-- ARGV[11..] bytes  receipts  id, delivery number, chance (0..999) of each; behind a number ''
--                             those of the next client
-- RETURN    { now_us, 'OK', nacked, died..., next, dropped }: of each client how many were given
--           back, those that died included, and how many died; next: when the first of all can be
--           taken again, ms, '' for none. dropped, if it is not 0: dead messages that the settings
--           keep no longer.
--           { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--           { now_us, 'BADQUEUE', true name },
--           { now_us, 'STREAM' }: its consumers ask Redis
-- COST      O(log leased) for each receipt

local keys = {
  timeout = KEYS[2], leased = KEYS[4], retry = KEYS[5], dead = KEYS[6], taken = KEYS[7],
  tries = KEYS[8], held = KEYS[9],
}
local mode, delay, said = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local tied = mode == 'TIED'
if tied then mode, delay = 'FAIL', 0 end

local now_us, queue, refused = Lease.begin(KEYS[3], ARGV[3], Lease.kinds(keys))
if refused then return refused end
local _, limit = Lease.terms(queue, nil, ARGV[7])
local backoff = Lease.backoff(queue, ARGV[8], ARGV[9], ARGV[10])

local now_ms = math.ceil(now_us / 1000)
local reply, nacked, died, least, seen, ended = { now_us, 'OK' }, 0, 0, nil, {}, 0
local function end_of_client()
  reply[#reply + 1], reply[#reply + 2] = nacked, died
  nacked, died, seen = 0, 0, {}
end
for i = 11, #ARGV, 3 do
  local id, number = ARGV[i], ARGV[i + 1]
  local place, deliveries, base, reason, own
  if number == '' then
    end_of_client()
  elseif not seen[id] then
    place, deliveries, base, reason, own = Lease.held(keys, id, number)
  end
  if place == 'leased' or (place == 'retry' and not tied) then
    seen[id], nacked = true, nacked + 1
    local attempt = deliveries - base
    -- Once for each delivery, which may be given back again for another time.
    if mode == 'SILENT' and place == 'leased' then base = math.min(base + 1, deliveries) end
    if said ~= '' and not (tied and reason ~= '') then reason = said end
    redis.call('ZREM', keys[place], id)
    if place == 'leased' then ended = ended + 1 end
    local most = own or limit
    if mode == 'FATAL' or (mode == 'FAIL' and most > 0 and attempt >= most) then
      died = died + 1
      redis.call('ZADD', keys.dead, now_ms, id)
      Lease.free_names(keys.held, { id })
    else
      local chance = tonumber(ARGV[i + 2])
      local from = now_ms + Lease.wait_ms(backoff, delay, mode, attempt, deliveries, chance)
      redis.call('ZADD', keys.retry, string.format('%.0f', from), id)
      if not least or from < least then least = from end
    end
    Lease.note_tries(keys.tries, id, deliveries, base, reason, own)
  end
end
end_of_client()
least = least and string.format('%.0f', least)
if not Wake.room(queue, keys.leased, ended) and least then
  Wake.retry(KEYS[3], keys.retry, least)
end
reply[#reply + 1] = least or ''
local dropped = queue.settings and Lease.drop_dead(keys, queue, now_ms) or 0
if dropped > 0 then reply[#reply + 1] = dropped end
return Call.applied(reply)
