-- Put payloads into the destination at once; or, where something is due before them, the queue
-- delivers nothing now, or has a stream, store them as offers that are due now: order is kept.
--
-- KEYS[1]   string  call         number and reply of this link's last call
-- KEYS[2]   list    destination
-- KEYS[3]   zset    timeout      member -> due, Unix ms
-- KEYS[4]   list    list         the members in offer order
-- KEYS[5]   hash    record       true name, format, order_list, pause, settings
-- KEYS[6]   hash    all          pause of all queues
-- KEYS[7]   none    guard        the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number       of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4..] bytes   messages     id of 8 bytes and payload of each; ids grow
-- RETURN    { now_us, 'OK', due_ms, takes 0 | 1, pending 0 | 1, head 0 | 1 }; due_ms: of all of
--           them. takes: only takers have the destination, and the ids are those of its messages.
--           pending: they were stored as offers; head: and one is the head now, and published.
--           { now_us, 'FAILED', outcome }: why nothing was stored, as offer.lua says it.
--           { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--           { now_us, 'BADQUEUE', true name }
-- COST      O(1) for each message, or what an offer of it costs

local _, destination, timeout, list, record, all = unpack(KEYS)

local now_us, queue, refused = Begin.write(record, ARGV[3], {
  destination, 'list', timeout, 'zset', list, 'list',
})
if refused then return refused end
local settings, now_ms = queue.settings, math.ceil(now_us / 1000)
local becomes = Record.destination(settings)
local takes = becomes == 'take' and 1 or 0

local of_all = redis.pcall('HGET', all, 'paused_until')
-- Entries of a stream are made by transfers alone.
local waits = becomes == 'stream' or Pause.of(queue.paused_until, of_all, now_us / 1000) ~= ''
  or (Record.setting(settings, 'rate') or 0) > 0
  or not Head.none_until(timeout, now_ms)

local ids, payloads = {}, {}
for i = 4, #ARGV, 2 do ids[#ids + 1], payloads[#payloads + 1] = ARGV[i], ARGV[i + 1] end

if waits then
  late()
  local members = {}
  for i = 1, #ids do
    local payload = Envelope.guarded(payloads[i])
    members[i] = string.char(8) .. ids[i] .. struct.pack('<I8', #payload) .. payload
  end
  local outcome = Store.group(KEYS, 2, now_ms, members, 1, #members, 0, '', '')
  if type(outcome) == 'string' then return Call.applied({ now_us, 'FAILED', outcome }) end
  return Call.applied({ now_us, 'OK', now_ms, takes, 1, outcome == 1 and 1 or 0 })
end

local ready = redis.call('LLEN', destination)
local failure, full = Store.full(settings, timeout, ready, nil, #payloads)
if failure or full then return Call.applied({ now_us, 'FAILED', failure or full }) end
if takes == 1 then
  for i = 1, #ids do payloads[i] = Envelope.with_id(ids[i], payloads[i]) end
end
for from = 1, #payloads, 1000 do
  redis.call('RPUSH', destination, unpack(payloads, from, math.min(from + 999, #payloads)))
end
return Call.applied({ now_us, 'OK', now_ms, takes, 0, 0 })
