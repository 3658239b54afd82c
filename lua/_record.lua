-- A queue's record: the hash of what all brokers have to agree on of it, read in one command.
-- Keeps: only the fields that are known here are read, since a hash of others may be huge.
--
--   name            the queue that the keys belong to
--   format          'legacy': of new members; no such field: modern
--   order_list      'off': none is kept
--   paused_until    see _pause.lua
--   unlisted_*      see _unlisted.lua
--   settings        ' <key>:<value>/<origin>' of each that is set: a whole number, or words with
--                   commas; see setup.lua
--   flag            a transfer tells the ids of messages whose payload begins with these bytes; no
--                   such field: of none

-- What an offer needs: name, format, order_list and settings, false where nothing is recorded.
-- Without a table, which would cost it 0.2 us. Where the key holds another type, the error comes
-- first.
function Record.for_offer(key)
  local found = redis.pcall('HMGET', key, 'name', 'format', 'order_list', 'settings')
  if found.err then return found end
  return nil, found[1], found[2], found[3], found[4]
end

-- What is set, as a number, or nil. `settings`: the field.
function Record.setting(settings, key)
  local value = settings and string.match(settings, ' ' .. key .. ':(%d+)/')
  return value and math.min(tonumber(value), 1e15)
end

-- Words with commas, '' where none are set.
function Record.words(settings, key)
  return settings and string.match(settings, ' ' .. key .. ':([^ /]+)/') or ''
end

-- Whether what is due becomes entries of a stream.
function Record.is_stream(settings)
  return settings and string.find(settings, ' destination:2/', 1, true) ~= nil
end

-- What a due message becomes: 'list' (or nothing that is known), 'take' or 'stream'.
function Record.destination(settings)
  return ({ 'take', 'stream' })[Record.setting(settings, 'destination')] or 'list'
end

-- All that most scripts need; the key holds a hash or nothing.
function Record.read(key)
  local found = redis.call('HMGET', key, 'name', 'format', 'order_list', 'paused_until',
    'unlisted_until', 'flag', 'settings')
  return {
    key = key, name = found[1], format = found[2], keeps_list = found[3] ~= 'off',
    paused_until = found[4], unlisted_until = found[5], flag = found[6], settings = found[7],
  }
end

-- The queue that keys with nothing recorded belong to, where that is not this one: the keys of
-- `{x}` are those of `x` too, and far more likely its own.
function Record.other_name(name)
  if string.byte(name) == 123 then return string.match(name, '^{([^{]+)}$') end
end

-- A recorded name counts only if the keys may be its own: that of this queue, or the one other
-- name that they can have. Else somebody renamed or copied the record by hand.
function Record.owner(recorded, name)
  if recorded == name then return recorded end
  if not recorded then return nil end
  if Record.other_name(name) == recorded or Record.other_name(recorded) == name then
    return recorded
  end
end

-- Deletes the record of a queue that has nothing pending and nothing taken, unless something in it
-- would be missed: a pause, a setting, or a name that the keys alone would say otherwise.
function Record.prune(queue, name, now_us)
  local paused = Pause.of(queue.paused_until, false, now_us / 1000) ~= ''
  local plain = not queue.format and queue.keeps_list and not queue.settings
    and not Record.other_name(name)
  if not paused and plain then redis.call('DEL', queue.key) end
end
