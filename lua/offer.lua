-- Store messages: each group of one queue in zset and order list, or nothing of it.
--
-- KEYS[1]   string  call         number and reply of this link's last call
-- KEYS[2..]         of each group in turn:
--           list    destination
--           zset    timeout      member -> due, Unix ms
--           list    list         the members in offer order
--           hash    record       true name, format, order_list
--           hash    names        of a named group only: name -> message id
--           hash    ids          of a named group only: hex of the id -> name
--           hash    held         of a named group only: see _held.lua
--           zset    first        of a group with priorities only: see _deliver.lua
-- KEYS[n]   none    guard        of one of the queues, the last key: see _begin.lua
-- ARGV[1]   int     number       of this call; grows from call to call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3..] msgpack groups       an array; of each of its groups in turn: head, delays, member...
--           head: the number of members, or [number, format, order_list, name, mode, carries];
--           all behind the name may be left out, name and mode are '' unless it is a named group,
--           which holds one message. Strings are `str`: cmsgpack does not know `bin`.
--           carries: 'META' where messages have headers, a TTL or a limit, 'PRIO' where they have
--           a priority: a queue whose destination does not have that refuses the group.
--           delays: one int for all, or an array; >= 0: ms from now, < 0: the due time negated.
--           members: modern, with ids of 8 bytes, which grow.
--           format: '' not configured: as recorded, else 'legacy' or 'modern', recorded where
--           none is.
--           order_list: '' as recorded; 'off' is, where nothing is recorded and pending.
--           mode: '' replaces, 'NX' only if absent, 'XX' only if present
-- RETURN    { now_us, 'OK', group, outcome... }, { now_us, 'LATE' | 'SETTLED' }. Groups count from
--           0; one that is not there was stored. Outcome: 1 stored and published, 2 nothing done
--           (NX, XX), or why nothing was stored: 'WRONGTYPE key', 'BADQUEUE true name', 'CLASH',
--           'FULL messages max_length more', 'DESTINATION carries', words of Redis ('OOM ...');
--           only after 'INTERNAL id clash' (several messages) some may be stored
-- COST      O(log pending) for each message

local now_us, refused = Begin.call()
if refused then return refused end
local now_ms = math.ceil(now_us / 1000)

-- A named message finds the one whose place it takes: seldom, so what that needs is built late.
local function named(...)
  late()
  return Store.named(...)
end

local reply, key, group = { now_us, 'OK' }, 2, 0
for i = 3, #ARGV do
  local values, at = cmsgpack.unpack(ARGV[i]), 1
  while values[at] do
    local count, format, order_list, name, mode, carries = values[at], nil, nil, nil, nil, nil
    if type(count) == 'table' then
      count, format, order_list, name, mode, carries = unpack(count)
      if name == '' then name = nil end
    end
    local first, last = at + 2, at + 1 + count
    local delays = values[at + 1]
    local outcome = Store.group(KEYS, key, now_ms, values, first, last, delays, format, order_list,
      name, mode, carries, named)
    if outcome then
      reply[#reply + 1] = group
      reply[#reply + 1] = outcome
    end
    key, at, group = key + (name and 7 or 4), last + 1, group + 1
    if carries == 'PRIO' then key = key + 1 end
  end
end
return Call.applied(reply)
