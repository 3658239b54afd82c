-- Find the ids that come first in offer order in one page of the zset, where no order list is kept.
--
-- KEYS[1]  zset   timeout        member -> due, Unix ms
-- KEYS[2]  hash   queue_key      true name of the queue
-- ARGV[1]  text   queue
-- ARGV[2]  text   cursor_score   of the last member looked at, '' on the first page
-- ARGV[3]  bytes  cursor_prefix  first 64 bytes of that member
-- ARGV[4]  int    look_max       members to look at
-- ARGV[5]  int    bytes_max      of members looked at; one is however large
-- ARGV[6]  bytes  before         ids of 8 bytes count only below this one; '' all
-- RETURN   { now_us, 'OK', next_score, next_prefix, score, id, score, id... }: next_score '' at the
--          end; ids as they come. Unreadable members have none: they are left to the transfer.
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
-- COST     O(log pending + look_max)

local timeout, queue_key = unpack(KEYS)
local queue, cursor_score, cursor_prefix, look_max, bytes_max, before = unpack(ARGV)

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused = refuse(now_us, queue_key, queue, { timeout, 'zset' })
if refused then return refused end

look_max, bytes_max = tonumber(look_max), tonumber(bytes_max)
local high, low = math.huge, 0
if before ~= '' then high, low = struct.unpack('>I4I4', before) end
local function comes_before(id)
  if #id ~= 8 then return true end
  local its_high, its_low = struct.unpack('>I4I4', id)
  return its_high < high or (its_high == high and its_low < low)
end

local rank = cursor_score ~= '' and rank_after(timeout, cursor_score, cursor_prefix) or 0
local reply, looked, bytes, chunk = { now_us, 'OK', '', '' }, 0, 0, 1
local page, ended = nil, false
while not ended and looked < look_max and bytes < bytes_max do
  -- To read all scores would take as long as the rest.
  page = redis.call('ZRANGE', timeout, rank + looked, rank + looked + chunk - 1)
  ended = #page < chunk
  for i = 1, #page do
    local _, id = read(page[i])
    if id and comes_before(id) then
      local size = #reply
      reply[size + 1], reply[size + 2] = redis.call('ZSCORE', timeout, page[i]), id
    end
    looked, bytes = looked + 1, bytes + #page[i]
  end
  chunk = math.min(next_chunk(chunk, looked, bytes, bytes_max), math.max(1, look_max - looked))
end
if not ended then
  reply[3] = redis.call('ZSCORE', timeout, page[#page])
  reply[4] = string.sub(page[#page], 1, 64)
end
return reply
