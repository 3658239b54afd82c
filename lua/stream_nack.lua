-- Take entries of a stream away from a consumer that could not handle them: they come again later,
-- or are dead.
--
-- KEYS[1]   string  call         number and reply of this link's last call
-- KEYS[2]   stream  destination
-- KEYS[3]   stream  again        retries of this group, where the stream has several
-- KEYS[4]   zset    timeout      member -> due, Unix ms; says only whose the keys are
-- KEYS[5]   hash    record       true name, settings
-- KEYS[6]   zset    retry        id and group -> when it comes again, ms
-- KEYS[7]   zset    dead         the same -> died, ms
-- KEYS[8]   hash    taken        the same -> fields
-- KEYS[9]   hash    tries        the same -> deliveries, base, reason: see _lease.lua
-- KEYS[10]  none    guard        the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number       of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   bytes   group
-- ARGV[5]   text    mode         'FAIL' counts; 'SILENT' does not; 'FATAL': dead at once
-- ARGV[6]   int     delay        ms until it comes again; '': the backoff, or of SILENT 0
-- ARGV[7]   text    reason       or ''
-- ARGV[8]   int     limit        deliveries that count, then a message is dead; 0: none
-- ARGV[9]   int     min          ms of the backoff after the first attempt
-- ARGV[10]  int     max          ms of the longest
-- ARGV[11]  int     jitter       percent that a wait may be shorter. These four of a queue that
--                                sets none of its own
-- ARGV[12..] text   entries      id, chance (0..999) of each
-- RETURN    { now_us, 'OK', nacked, died, next, done }: how many were taken away, those that died
--           included; next: when the first of them comes again, ms, or ''. done: how many of the
--           ids were looked at, up to 1 MiB of entries and one more. Of an entry that the group
--           has acknowledged, or was not given, nothing is done.
--           { now_us, 'NOSTREAM' }: the destination is no stream. { now_us, 'NOGROUP' },
--           { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--           { now_us, 'BADQUEUE', true name }
-- COST      O(log pending) for each entry

local destination, again = KEYS[2], KEYS[3]
local keys = { retry = KEYS[6], dead = KEYS[7], taken = KEYS[8], tries = KEYS[9] }
local group, mode, delay, said = ARGV[4], ARGV[5], tonumber(ARGV[6]), ARGV[7]

local now_us, queue, refused = Begin.write(KEYS[5], ARGV[3], {
  again, 'stream', KEYS[4], 'zset', keys.retry, 'zset', keys.dead, 'zset',
  keys.taken, 'hash', keys.tries, 'hash',
})
if refused then return refused end
refused = Stream.refusal(now_us, queue, destination)
if refused then return Call.applied(refused) end
local groups, count = Stream.groups(destination)
if not groups[group] then return Call.applied({ now_us, 'NOGROUP' }) end
local own = count > 1
local streams = { destination, Stream.groups(again)[group] and again or nil }

local _, limit = Lease.terms(queue, nil, ARGV[8])
local backoff = Lease.backoff(queue, ARGV[9], ARGV[10], ARGV[11])
local now_ms = math.ceil(now_us / 1000)
local nacked, died, least, done, bytes, bytes_max = 0, 0, nil, 0, 0, 1048576
for i = 12, #ARGV, 2 do
  if bytes >= bytes_max then break end
  local id = ARGV[i]
  done = done + 1
  for _, stream in ipairs(streams) do
    local times = (redis.call('XPENDING', stream, group, id, id, 1)[1] or {})[4]
    local entry = times and redis.call('XRANGE', stream, id, id)[1]
    -- Memory is freed first: then Redis lets the others follow at its limit.
    local is_ours = times and redis.call('XACK', stream, group, id) == 1
    if is_ours then
      nacked = nacked + 1
      if entry and entry[2] then
        local fields = entry[2]
        for at = 1, #fields do bytes = bytes + #fields[at] end
        local attempt, message, own_limit = Stream.read(id, fields)
        local most, deliveries = own_limit or limit, attempt - 1 + times
        local base = mode == 'SILENT' and 1 or 0
        local tries = { deliveries, base, said }
        if mode == 'FATAL' or (mode == 'FAIL' and most > 0 and deliveries >= most) then
          died = died + 1
          Stream.hold(keys, 'dead', now_ms, message, group, fields, tries, id)
        else
          local chance = tonumber(ARGV[i + 1])
          local from = now_ms + Lease.wait_ms(backoff, delay, mode, deliveries, deliveries, chance)
          Stream.hold(keys, 'retry', from, message, group, fields, tries, id)
          if not least or from < least then least = from end
        end
      end
      -- Other groups may have to read it.
      if not own or stream == again then redis.pcall('XDEL', stream, id) end
      break
    end
  end
end
if died > 0 then Lease.drop_dead(keys, queue, now_ms) end
least = least and string.format('%.0f', least) or ''
return Call.applied({ now_us, 'OK', nacked, died, least, done })
