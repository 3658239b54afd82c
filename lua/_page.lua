-- Reads a long zset or list in pages.
-- Keeps: a member that is pending all the while is in exactly one page, whatever comes and goes
-- meanwhile.
--
-- A cursor of a zset is four values:
--   score  of the page's first member, as Redis or the broker writes it; '' before the first page
--          and after the last one; with '(' in front, the page begins behind all members of this
--          score
--   from   the page begins with the first member of that score that is not below these bytes. They
--          are the first bytes of that member, as many as tell it from the member before it
--   rank   of that member when the cursor was made: a hint that saves a search
--   mark   '', or the SHA1 of the member before, if the two share more bytes than `from` may have

local from_max = 1024

-- The rank where a cursor's page begins, and the member there if it was read. Nothing if the place
-- is lost, because members whose first 1,024 bytes agree came or went.
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
  -- The marked member may be one of the next.
  local bytes, last = 0, math.min(beyond, found + 100) - 1
  while found <= last and bytes < 1048576 do
    if redis.sha1hex(here) == mark then return found + 1 end
    bytes, found = bytes + #here, found + 1
    here = redis.call('ZRANGE', timeout, found, found)[1]
  end
end

-- The cursor behind a member that is, or was, right before `rank`. `next`: the member at that rank,
-- if it is known.
function Page.cursor_behind(timeout, member, score, rank, next)
  if rank >= redis.call('ZCOUNT', timeout, '-inf', score) then return '(' .. score, '', 0, '' end
  next = next or redis.call('ZRANGE', timeout, rank, rank)[1]
  local same = Find.common(member, next, from_max)
  local mark = same < from_max and '' or redis.sha1hex(member)
  return score, string.sub(next, 1, math.min(same + 1, from_max)), rank, mark
end

-- How many members to read next. `length`: how many there are in all. Large members are read one by
-- one, since they are copied. Those to come may be larger than those before, so a chunk is small,
-- but in a long `list` that hides nothing large: there the walk to each chunk is long.
function Page.next_chunk(chunk, looked, look_max, bytes, bytes_max, length, list)
  local fitting = math.floor((bytes_max - bytes) * looked / math.max(bytes, 1))
  local most = math.max(2, math.min(256, math.floor(length / 2000)))
  if most > List.page_max and (not list or List.hides(list, length)) then most = List.page_max end
  return math.max(1, math.min(4 * chunk, fitting, most, look_max - looked))
end

-- Calls `look` with each pending member from a cursor on. The page ends after `look_max` members or
-- `bytes_max` bytes, or where `look` returns 'before' or 'behind': before or behind that member.
-- Returns nothing if the place is lost; else a table: rank (behind the last member of the page),
-- ended (nothing follows), and unless the page is empty, last (that member) and score (its score).
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

-- The cursor of the next page. `taken`: how many members of this one were taken out since.
function Page.cursor_of(timeout, cursor, page, taken)
  if page.ended then return '', '', 0, '' end
  if not page.last then return unpack(cursor) end
  return Page.cursor_behind(timeout, page.last, page.score, page.rank - taken)
end
