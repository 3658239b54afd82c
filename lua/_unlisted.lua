-- Members that have left the order list before they are delivered. Where a long list is in another
-- order than due times, to look for each member that is due is too dear, so the list is passed once
-- for many: by parts, each in a script of its own, from its end. What is taken off waits for its
-- delivery in the zset alone. Or the whole list goes, where all that is pending is due.
-- Keeps: the fields of the queue's hash below say what has left the list. To lose them costs time
-- and no message: what is not found in the list is only looked for in vain.
--
--   unlisted_until  members of scores up to this have left the list
--   unlisted_from   but not yet those among its first so many entries; no such field: all have
--   unlisted_after  and those of scores up to this are listed again
--   unlisted_tail   an array of cmsgpack: a count of entries that were looked at, then the first
--                   bytes of the last of them, and of some before it. What is behind came since
--   unlisted_seek   "<where> <bytes>": where one long list has the member that begins with these
--                   bytes: near its 'front' or 'back', or 'behind' its first half

function Unlisted.forget(record)
  redis.call('HDEL', record, 'unlisted_until', 'unlisted_from', 'unlisted_after',
    'unlisted_tail')
end

-- A field as a number, nil if it is none.
function Unlisted.score(text)
  local score = tonumber(text or nil)
  return score == score and score or nil
end

-- The score of a pending member has changed: it is listed again where it had left the list. Returns
-- true if the list was passed for that.
function Unlisted.list_again(queue, list, member, before, after)
  local unlisted_until = Unlisted.score(queue.unlisted_until)
  if not unlisted_until then return end
  if before > unlisted_until then
    -- Redis's clock went back.
    if after <= unlisted_until then Unlisted.forget(queue.key) end
  elseif after > unlisted_until then
    if not redis.call('LPOS', list, member) then redis.call('RPUSH', list, member) end
    return true
  end
end
