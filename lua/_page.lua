-- Reading a long zset or list in pages.
-- Keeps: what is pending all the while is in exactly one page, whatever comes and goes meanwhile.
--
-- A cursor of the zset is four values:
--   score  as Redis writes it; '' at both ends; with '(' in front, behind all that have this score
--   from   the page begins with the first member of that score that is not below these bytes: as
--          many of its first ones as tell it from the member before it
--   rank   where it was then: a hint that saves halving
--   mark   '', or where the two share more than `from` may have, the SHA1 of the member before it

local from_max = 1024

-- The rank where a cursor's page begins, and the member there where it was read (else nil); nothing
-- if the place is lost: members whose first 1,024 bytes agree came or went.
function Page.rank_at(timeout, score, from, rank, mark)
  if score == '' then return 0 end
  if string.sub(score, 1, 1) == '(' then
    return redis.call('ZCOUNT', timeout, '-inf', string.sub(score, 2))
  end
  local first = redis.call('ZCOUNT', timeout, '-inf', '(' .. score)
  local beyond = redis.call('ZCOUNT', timeout, '-inf', score)
  rank = tonumber(rank) or 0
  if rank > first and rank < beyond then
    local before = redis.call('ZRANGE', timeout, rank - 1, rank - 1)[1]
    if mark ~= '' then
      if redis.sha1hex(before) == mark then return rank end
    elseif Find.below(before, from) then
      local here = redis.call('ZRANGE', timeout, rank, rank)[1]
      if not Find.below(here, from) then return rank, here end
    end
  end
  local found, here = Find.rank(timeout, first, beyond, from)
  if mark == '' then return found, here end
  -- A few more of them tell where it was.
  local bytes, last = 0, math.min(beyond, found + 100) - 1
  while found <= last and bytes < 1048576 do
    if redis.sha1hex(here) == mark then return found + 1 end
    bytes, found = bytes + #here, found + 1
    here = redis.call('ZRANGE', timeout, found, found)[1]
  end
end

-- The cursor behind a member, which is or was before `rank`. `next`: the member there, if known.
function Page.cursor_behind(timeout, member, score, rank, next)
  if rank >= redis.call('ZCOUNT', timeout, '-inf', score) then return '(' .. score, '', 0, '' end
  next = next or redis.call('ZRANGE', timeout, rank, rank)[1]
  local same = Find.common(member, next, from_max)
  local mark = same < from_max and '' or redis.sha1hex(member)
  return score, string.sub(next, 1, math.min(same + 1, from_max)), rank, mark
end

-- How many members to read next, of so many in all. Large ones are read one by one, since they are
-- copied; and what comes may be larger than what came, so of few not many are read at once.
function Page.next_chunk(chunk, looked, look_max, bytes, bytes_max, length)
  local fitting = math.floor((bytes_max - bytes) * looked / math.max(bytes, 1))
  local most = math.max(2, math.min(256, math.floor(length / 2000)))
  return math.max(1, math.min(4 * chunk, fitting, most, look_max - looked))
end

-- Calls `look` with each pending member from a cursor on, until it looked at `look_max`, or at
-- `bytes_max` bytes, or `look` says 'before' or 'behind': the page ends there. Returns nothing if
-- the place is lost; else the page: rank (behind what was looked at), ended, and where something
-- was looked at, last and score of that.
function Page.walk(timeout, cursor, look_max, bytes_max, look)
  local rank, ahead = Page.rank_at(timeout, unpack(cursor))
  if not rank then return end
  local length = redis.call('ZCARD', timeout)
  local page = { rank = rank, ended = false }
  local looked, bytes, chunk, stop = 0, 0, 1, nil
  while not page.ended and not stop and looked < look_max and bytes < bytes_max do
    local members = ahead and { ahead }
      or redis.call('ZRANGE', timeout, page.rank, page.rank + chunk - 1)
    page.ended = #members < chunk
    for i = 1, #members do
      local member = members[i]
      stop = look(member)
      if stop == 'before' then break end
      page.last, page.rank = member, page.rank + 1
      looked, bytes = looked + 1, bytes + #member
      if stop then break end
    end
    ahead = nil
    if stop then page.ended = false end
    chunk = Page.next_chunk(chunk, looked, look_max, bytes, bytes_max, length)
  end
  if page.last then page.score = redis.call('ZSCORE', timeout, page.last) end
  return page
end

-- The cursor of the next page, where so many were taken out of this one.
function Page.cursor_of(timeout, cursor, page, taken)
  if page.ended then return '', '', 0, '' end
  if not page.last then return unpack(cursor) end
  return Page.cursor_behind(timeout, page.last, page.score, page.rank - taken)
end
