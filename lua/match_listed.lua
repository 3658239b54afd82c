-- Find pending messages by payload in one page of the order list.
--
-- KEYS[1]   zset   timeout    member -> due, Unix ms
-- KEYS[2]   list   list       the members in offer order
-- KEYS[3]   hash   queue_key  true name, order_list
-- ARGV[1]   text   queue
-- ARGV[2]   int    index      where the page begins; 0 first, then next_index
-- ARGV[3]   bytes  anchor     the member before it, '' on the first page, then next_anchor
-- ARGV[4]   int    page       members to look at
-- ARGV[5]   int    found_max  matches at which the page ends early
-- ARGV[6..] bytes  payloads   looked for; of equal ones the first gets the matches
-- RETURN    { now_us, 'OK', next_index, next_anchor, member, payload_no, ... }: next_index -1 at
--           the end; payload_no from 1. { now_us, 'LOST' } if the anchor has left the list,
--           { now_us, 'NOLIST' } where none is kept, { now_us, 'WRONGTYPE', key },
--           { now_us, 'BADQUEUE', true name }
-- COST      O(page), and O(listed) when the list has moved since the page before

local timeout, list, queue_key = unpack(KEYS)
local queue, index, anchor, page, found_max = unpack(ARGV, 1, 5)

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused, keeps_list = refuse(now_us, queue_key, queue, { timeout, 'zset', list, 'list' })
if refused then return refused end
if not keeps_list then return { now_us, 'NOLIST' } end

index, page, found_max = tonumber(index), tonumber(page), tonumber(found_max)
if index > 0 and redis.call('LINDEX', list, index - 1) ~= anchor then
  local place = redis.call('LPOS', list, anchor)
  if not place then return { now_us, 'LOST' } end
  index = place + 1
end
local payloads = {}
for i = 6, #ARGV do payloads[i - 5] = ARGV[i] end
local match = matcher(payloads)

local reply = { now_us, 'OK', -1, '' }
local members = redis.call('LRANGE', list, index, index + page - 1)
for i = 1, #members do
  local payload_no = match(members[i])
  if payload_no and redis.call('ZSCORE', timeout, members[i]) then
    local size = #reply
    reply[size + 1], reply[size + 2] = members[i], payload_no
  end
  if i == page or #reply == 4 + 2 * found_max then
    reply[3], reply[4] = index + i, members[i]
    break
  end
end
return reply
