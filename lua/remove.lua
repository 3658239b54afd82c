-- Take out messages by id that carry this payload; each that is still pending counts.
--
-- KEYS[1]   string  call       number and reply of this link's last call
-- KEYS[2]   zset    timeout    member -> due, Unix ms
-- KEYS[3]   list    list       the members in offer order
-- KEYS[4]   hash    record     true name, order_list
-- KEYS[5]   hash    names      name -> message id
-- KEYS[6]   hash    ids        hex of the id -> name
-- KEYS[7]   none    guard      the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number     of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   bytes   payload
-- ARGV[5]   int     bytes_max  of the messages; one is removed however large
-- ARGV[6..] text    messages   score, id bytes of each
-- RETURN    { now_us, 'OK', removed, done }: how many messages of those given were dealt with; the
--           others are for the next call. { now_us, 'LATE' | 'SETTLED' },
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST      O(log pending) for each message, and two passes over the list where one is kept

local _, timeout, list, record, names, ids = unpack(KEYS)
local _, _, _, payload, bytes_max = unpack(ARGV, 1, 5)

local now_us, queue, refused = Begin.write(record, ARGV[3], {
  timeout, 'zset', list, 'list', names, 'hash', ids, 'hash',
})
if refused then return refused end

local removed, done = TakeOut.given(ARGV, 6, queue, tonumber(bytes_max), payload)
return Call.applied({ now_us, 'OK', removed, done })
