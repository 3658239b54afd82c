-- Take messages out by id or name, so that they are never delivered.
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
-- ARGV[4..] text    messages   score, id bytes; or '', name; or =score, member; of each message
-- RETURN    { now_us, 'OK', cancelled, done }, { now_us, 'LATE' | 'SETTLED' },
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
--           done: how many of the messages it came to, where that was not all
-- COST      O(log pending) for each message, up to 1 MiB of members, and two passes over the list

local _, timeout, list, record, names, ids = unpack(KEYS)

local now_us, queue, refused = Begin.write(record, ARGV[3], {
  timeout, 'zset', list, 'list', names, 'hash', ids, 'hash',
})
if refused then return refused end

local cancelled, done = TakeOut.given(ARGV, 4, queue, 1048576)
if done == (#ARGV - 3) / 2 then done = nil end
return Call.applied({ now_us, 'OK', cancelled, done })
