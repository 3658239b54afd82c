-- Rewrites a pending member in the other format.
-- Keeps: id, payload and score stay, so the message id does; what would not read back as the same
-- message is not written.

-- The format that is asked for, or that the queue's new members have.
function Convert.format(queue, format)
  if format == '' then format = queue.format end
  return format == 'legacy' and 'legacy' or 'modern'
end

-- The member in that format: itself if it has it, nil if there is none. Both formats differ by the
-- byte with the length of the id, where that is 8.
function Convert.repack(member, format)
  local payload, id, its_format = Member.read(member)
  if its_format == format then return member end
  if not id or #id ~= 8 then return end
  local other = format == 'modern' and '\8' .. member or string.sub(member, 2)
  local same_payload, same_id, new_format = Member.read(other)
  if new_format == format and same_id == id and same_payload == payload then return other end
end

-- Puts `other` in the member's place in the zset. False if that is not pending, or if `other` is.
function Convert.swap(timeout, member, other)
  local score = redis.call('ZSCORE', timeout, member)
  if not score or redis.call('ZSCORE', timeout, other) then return false end
  -- The write that frees memory goes first: then Redis lets the others follow at its limit.
  redis.call('ZREM', timeout, member)
  redis.call('ZADD', timeout, score, other)
  return true
end
