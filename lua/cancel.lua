-- Take messages out by id or name, so that they are never delivered.
--
-- KEYS[1]   string  call       number and reply of this link's last call
-- KEYS[2]   zset    timeout    member -> due, Unix ms
-- KEYS[3]   list    list       the members in offer order
-- KEYS[4]   hash    queue_key  true name, order_list
-- KEYS[5]   hash    names      name -> message id
-- KEYS[6]   hash    ids        hex of the id -> name
-- ARGV[1]   int     number     of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4..] text    messages   score, id bytes; or '', name; of each message
-- RETURN    { now_us, 'OK', cancelled }, { now_us, 'LATE' | 'SETTLED' },
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST      O(log pending) for each message, and one pass over the list

local call_key, timeout, list, queue_key, names, ids = unpack(KEYS)
local number, valid_until_ms, queue = ARGV[1], ARGV[2], ARGV[3]

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = guard(call_key, number, valid_until_ms, now_us / 1000)
if refused then return { now_us, refused } end
local keeps_list
refused, keeps_list = refuse(now_us, queue_key, queue, {
  timeout, 'zset', list, 'list', names, 'hash', ids, 'hash',
})
if refused then return applied(call_key, number, refused) end

local cancelled, taken = {}, {}
for i = 4, #ARGV, 2 do
  local member = find(timeout, names, ARGV[i], ARGV[i + 1])
  if member then
    redis.call('ZREM', timeout, member)
    cancelled[#cancelled + 1] = member
    local _, id = read(member)
    taken[#taken + 1] = hex(id)
  end
end
if keeps_list then strike(list, cancelled) end
forget(names, ids, taken)
return applied(call_key, number, { now_us, 'OK', #cancelled })
