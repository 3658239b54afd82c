-- Names that are held until their messages are done: from the delivery on until a message is
-- settled, expires or dies.
-- Keeps: a key of another type holds no names, and is in nobody's way.
--
--   held  hash  n:<name> -> id, i:<id> -> name; ids of 8 bytes

-- Adds the fields of one to those that are to be written.
function Held.note(fields, name, id)
  local at = #fields
  fields[at + 1], fields[at + 2] = 'n:' .. name, id
  fields[at + 3], fields[at + 4] = 'i:' .. id, name
end

function Held.write(held, fields)
  for from = 1, #fields, 1000 do
    redis.pcall('HSET', held, unpack(fields, from, math.min(from + 999, #fields)))
  end
end

function Held.has(held, name)
  return type(redis.pcall('HGET', held, 'n:' .. name)) == 'string'
end

-- Frees the names of messages that are done. A name that a later message holds too stays.
function Held.free(held, ids)
  for i = 1, #ids do
    local name = redis.pcall('HGET', held, 'i:' .. ids[i])
    if type(name) == 'string' then
      if redis.call('HGET', held, 'n:' .. name) == ids[i] then
        redis.call('HDEL', held, 'n:' .. name)
      end
      redis.call('HDEL', held, 'i:' .. ids[i])
    end
  end
end
