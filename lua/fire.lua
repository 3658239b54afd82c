-- Make messages due now, where those that are due already stay as they are; or at a moment.
--
-- KEYS[1]   string  call       number and reply of this link's last call
-- KEYS[2]   zset    timeout    member -> due, Unix ms
-- KEYS[3]   list    list       the members in offer order
-- KEYS[4]   hash    record     true name, order_list, unlisted_*
-- KEYS[5]   hash    names      name -> message id
-- KEYS[6]   hash    ids        hex of the id -> name
-- KEYS[7]   none    guard      the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number     of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   text    due        '' for now, or Unix ms
-- ARGV[5..] text    messages   score, id bytes; or '', name; or =score, member; of each message
-- RETURN    { now_us, 'OK', fired, head 0 | 1, done }, { now_us, 'LATE' | 'SETTLED' },
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
--           fired counts pending ones, whenever they were due. head: one whose score changed is now
--           the head, and published. done: how many of the messages it came to, where that was not
--           all
-- COST      O(log pending) for each message, up to 1 MiB of members; passes over the list where
--           members had left it, see _unlisted.lua, of 600,000 elements together and one more

local _, timeout, list, record, names, ids = unpack(KEYS)

local now_us, queue, refused = Begin.write(record, ARGV[3], {
  timeout, 'zset', list, 'list', names, 'hash', ids, 'hash',
})
if refused then return refused end

-- A message named twice is found twice by its name, but no longer by an id with the old score.
local due = tonumber(ARGV[4]) or math.floor(now_us / 1000)
local due_text = string.format('%.0f', due)
local bytes_max = 1048576 -- of members
local passed_max = 600000 -- elements of the list: 15 ms
local seen, moved, fired, done, bytes, passed = {}, {}, 0, 0, 0, 0
for i = 5, #ARGV, 2 do
  if passed > passed_max then break end
  local member, score = Find.member(timeout, names, ARGV[i], ARGV[i + 1])
  if member and not seen[member] then
    bytes = bytes + #member
    if bytes > bytes_max and fired > 0 then break end
    seen[member] = true
    fired = fired + 1
    local before = tonumber(score)
    if before > due or (before < due and ARGV[4] ~= '') then
      redis.call('ZADD', timeout, 'XX', due_text, member)
      Names.rescore(names, ids, due_text, Member.id(member))
      if queue.keeps_list and Unlisted.list_again(queue, list, member, before, due) then
        passed = passed + redis.call('LLEN', list)
      end
      moved[#moved + 1] = member
    end
  end
  done = done + 1
end
local head = Publish.head(timeout, list, moved, due)
if done == (#ARGV - 4) / 2 then done = nil end
return Call.applied({ now_us, 'OK', fired, head, done })
