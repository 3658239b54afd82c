-- Reading a long zset or list in pages. Uses _find.lua.
-- Keeps: a cursor is a score and the first 64 bytes of a member, so that no large one goes to and
-- fro; what shares both with it counts as read.

-- The rank behind a cursor.
local function rank_after(timeout, score, prefix)
  local first = redis.call('ZCOUNT', timeout, '-inf', '(' .. score)
  local beyond = redis.call('ZCOUNT', timeout, '-inf', score)
  local rank = search(timeout, first, beyond, prefix)
  while rank < beyond
    and string.sub(redis.call('ZRANGE', timeout, rank, rank)[1], 1, 64) == prefix do
    rank = rank + 1
  end
  return rank
end

-- How many members to read next: large ones are read one by one, since they are copied.
local function next_chunk(chunk, looked, bytes, bytes_max)
  local fitting = math.floor((bytes_max - bytes) * looked / math.max(bytes, 1))
  return math.max(1, math.min(4 * chunk, fitting, 256))
end
