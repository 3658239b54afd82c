-- Find pending messages by payload in one page of the zset: also those that are not listed.
--
-- KEYS[1]   zset   timeout    member -> due, Unix ms
-- KEYS[2]   hash   queue_key  true name of the queue
-- ARGV[1]   text   queue
-- ARGV[2]   text   score      of the last member looked at, '' on the first page
-- ARGV[3]   bytes  member     the last member looked at
-- ARGV[4]   int    page       members to look at
-- ARGV[5..] bytes  payloads   looked for; of equal ones the first gets the matches
-- RETURN    { now_us, 'OK', next_score, next_member, member, payload_no, ... }: next_score '' at
--           the end; payload_no from 1.
--           { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST      O(log pending + page)

local timeout, queue_key = unpack(KEYS)
local queue, score, last_member, page = unpack(ARGV, 1, 4)

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = refuse(now_us, queue_key, queue, { timeout, 'zset' })
if refused then return refused end

local rank = 0
page = tonumber(page)
if score ~= '' then
  local first = redis.call('ZCOUNT', timeout, '-inf', '(' .. score)
  local beyond = redis.call('ZCOUNT', timeout, '-inf', score)
  rank = search(timeout, first, beyond, last_member)
  if rank < beyond and redis.call('ZRANGE', timeout, rank, rank)[1] == last_member then
    rank = rank + 1
  end
end
local payloads = {}
for i = 5, #ARGV do payloads[i - 4] = ARGV[i] end
local match = matcher(payloads)

local reply = { now_us, 'OK', '', '' }
local members = redis.call('ZRANGE', timeout, rank, rank + page - 1)
for i = 1, #members do
  local payload_no = match(members[i])
  if payload_no then
    local size = #reply
    reply[size + 1], reply[size + 2] = members[i], payload_no
  end
end
if #members == page then
  reply[3] = redis.call('ZSCORE', timeout, members[page])
  reply[4] = members[page]
end
return reply
