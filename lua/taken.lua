-- Read a page of the messages that consumers have taken: leased, waiting for a retry, or dead.
--
-- KEYS[1]  zset  timeout  member -> due, Unix ms; says only whose the keys are
-- KEYS[2]  hash  record   true name of the queue
-- KEYS[3]  zset  leased   id -> until, ms
-- KEYS[4]  zset  retry    id -> when it can be taken again, ms
-- KEYS[5]  zset  dead     id -> died, ms
-- KEYS[6]  hash  taken    id -> payload; of a stream fields, see _stream.lua
-- KEYS[7]  hash  tries    id -> deliveries, base, reason: see _lease.lua
-- KEYS[8]  none  guard    the channel's name, never a key: see _begin.lua
-- ARGV[1]  text  queue
-- ARGV[2]  text  place    'leased', 'retry' or 'dead': the zset that is read
-- ARGV[3]  int   count    messages at most
-- ARGV[4]  int   bytes_max  of payloads, which are read of dead ones only; one however large
-- ARGV[5]  int   message_max  bytes beyond which a payload is left out, as ''
-- ARGV[6]  text  score    cursor of _page.lua, '' at the start
-- ARGV[7]  bytes from     of the cursor
-- ARGV[8]  int   rank     of the cursor
-- ARGV[9]  text  mark     of the cursor
-- RETURN   { now_us, 'OK', score, from, rank, mark, id, moment, deliveries, base, reason, bytes,
--          payload... }: the next cursor, its score '' at the end; moment: the score of the id.
--          bytes: of the payload of a dead one, -1 where somebody deleted it.
--          { now_us, 'LOST' } if the cursor's place is lost, { now_us, 'WRONGTYPE', key },
--          { now_us, 'BADQUEUE', true name }
-- COST     O(count)

local keys = {
  timeout = KEYS[1], leased = KEYS[3], retry = KEYS[4], dead = KEYS[5], taken = KEYS[6],
  tries = KEYS[7],
}
local place, count, bytes_max = keys[ARGV[2]], tonumber(ARGV[3]), tonumber(ARGV[4])
local message_max = tonumber(ARGV[5])

local now_us, queue, refused = Begin.read(KEYS[2], ARGV[1], Lease.kinds(keys))
if refused then return refused end

local cursor = { ARGV[6], ARGV[7], ARGV[8], ARGV[9] }
local found, bytes = {}, 0
-- Others may have put a member of any size there.
local page = Page.walk(place, cursor, count, 1048576, function(id)
  if ARGV[2] ~= 'dead' or message_max == 0 then
    found[#found + 1] = { id, 0, '' }
    return
  end
  local size = Lease.payload_bytes(keys.taken, id)
  if size > message_max then
    -- It may have been read to see that.
    bytes = bytes + size
    found[#found + 1] = { id, size, '' }
    return bytes > bytes_max and 'behind' or nil
  end
  if bytes + size > bytes_max and bytes > 0 then return 'before' end
  bytes = bytes + size
  local payload = redis.call('HGET', keys.taken, id)
  if payload and Record.is_stream(queue.settings) then
    payload = Stream.payload(Stream.held(keys.taken, id))
    size = #payload
  end
  found[#found + 1] = { id, payload and size or -1, payload or '' }
end)
if not page then return { now_us, 'LOST' } end
local reply = { now_us, 'OK', Page.cursor_of(place, cursor, page, 0) }
for i = 1, #found do
  local id, size, payload = unpack(found[i])
  local deliveries, base, reason = Lease.tries_of(keys.tries, id)
  local at = #reply
  reply[at + 1], reply[at + 2] = id, redis.call('ZSCORE', place, id)
  reply[at + 3], reply[at + 4], reply[at + 5] = deliveries, base, reason
  reply[at + 6], reply[at + 7] = size, payload
end
return reply
