-- The names of messages: name -> message id, and hex of the id -> name.
-- Keeps: what is taken out loses its name at once; a name that points elsewhere is left alone.

-- Forgets the names of messages that were taken out; `taken` = their ids in hex. Where none is
-- left in the zset, also those whose messages other programs took. Keys of another type hold none.
function Names.forget(timeout, names, ids, taken)
  if #taken == 0 or redis.call('TYPE', ids).ok ~= 'hash' then return end
  if redis.call('EXISTS', timeout) == 0 then
    redis.call('UNLINK', names, ids)
    return
  end
  for from = 1, #taken, 1000 do
    local to = math.min(from + 999, #taken)
    local found = redis.call('HMGET', ids, unpack(taken, from, to))
    for i = 1, #found do
      local name, digits = found[i], taken[from + i - 1]
      if name then
        redis.call('HDEL', ids, digits)
        local text = redis.pcall('HGET', names, name)
        if type(text) == 'string' and string.match(text, '%x*$') == digits then
          redis.call('HDEL', names, name)
        end
      end
    end
  end
end

-- Writes the new message id of a message whose score changed to its name, if it has one.
function Names.rescore(names, ids, score, id)
  local name = redis.call('HGET', ids, Member.hex(id))
  if name then redis.call('HSET', names, name, Member.message_id(score, id)) end
end
