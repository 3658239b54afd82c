-- Record settings of a queue, and with them that the keys are this queue's.
--
-- KEYS[1]   string  call         number and reply of this link's last call
-- KEYS[2]   list    destination  due messages, or a stream of them; may hold another type
-- KEYS[3]   zset    timeout      member -> due, Unix ms; says whose the keys are, too
-- KEYS[4]   hash    record       true name, format, settings
-- KEYS[5]   hash    taken        messages that are leased, wait for a retry or are dead
-- KEYS[6]   zset    first        due messages with a priority
-- KEYS[7]   none    guard        the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number       of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   text    mode         ''; 'IFABSENT': only those that are not set; 'RESET': in place of
--                                all that is
-- ARGV[5]   text    origin       of these: 'setup' or 'file'
-- ARGV[6..] text    pairs        key, and whole number, words with commas, or '': not set any more
-- RETURN    { now_us, 'OK', before, after }: the field as it was, and as it is.
--           { now_us, 'INUSE', key }: the destination would change, and this key holds messages.
--           { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--           { now_us, 'BADQUEUE', true name }
-- COST      O(settings)

local destination, timeout, record, taken, first = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local name, mode, origin = ARGV[3], ARGV[4], ARGV[5]

local now_us, queue, refused = Begin.write(record, name, {
  timeout, 'zset', taken, 'hash', first, 'zset',
})
if refused then return refused end

-- Settings that only a newer broker knows are kept.
local before, values = queue.settings or '', {}
for key, value in string.gmatch(before, ' ([%w_]+):([^ /]+/%a+)') do
  if mode ~= 'RESET' or key == 'file' then values[key] = value end
end
-- That a broker's file was recorded: where this is missing, Redis has lost it.
if origin == 'file' then values.file = '1/file' end
for i = 6, #ARGV, 2 do
  local key, value = ARGV[i], ARGV[i + 1]
  if mode ~= 'IFABSENT' or not values[key] then
    values[key] = value ~= '' and value .. '/' .. origin or nil
  end
end
local each = {}
for key, value in pairs(values) do each[#each + 1] = ' ' .. key .. ':' .. value end
table.sort(each)
local after = table.concat(each)
if after == before then return Call.applied({ now_us, 'OK', before, after }) end

-- What is due or pending was stored for the destination of before. Only takers can have what a list
-- holds.
local was, becomes = Record.destination(before), Record.destination(after)
if was ~= becomes and not (was == 'list' and becomes == 'take') then
  local is_stream = was == 'stream' and redis.call('TYPE', destination).ok == 'stream'
  local empties = is_stream and Stream.is_done(destination)
  for _, key in ipairs({ timeout, destination, first, taken }) do
    local holds = redis.call('EXISTS', key) == 1 and not (key == destination and empties)
    if holds then return Call.applied({ now_us, 'INUSE', key }) end
  end
  -- A stream without entries is a key all the same.
  if empties then redis.call('DEL', destination) end
end

if after == '' then
  redis.call('HDEL', record, 'settings')
  if queue.format == 'modern' then redis.call('HDEL', record, 'format') end
else
  -- Brokers before DQ.SETUP forget a record without a format, whatever is set in it.
  redis.call('HSET', record, 'name', name, 'settings', after, 'format', queue.format or 'modern')
end
Wake.publish(record, '0')
return Call.applied({ now_us, 'OK', before, after })
