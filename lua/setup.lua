-- Record settings of a queue, and with them that the keys are this queue's.
--
-- KEYS[1]   string  call     number and reply of this link's last call
-- KEYS[2]   zset    timeout  member -> due, Unix ms; says only whose the keys are
-- KEYS[3]   hash    record   true name, format, settings
-- KEYS[4]   none    guard    the channel's name, never a key: see _begin.lua
-- ARGV[1]   int     number   of this call
-- ARGV[2]   int     valid_until_ms
-- ARGV[3]   text    queue
-- ARGV[4]   text    mode     ''; 'IFABSENT': only those that are not set; 'RESET': in place of all
--                            that is
-- ARGV[5]   text    origin   of these: 'setup' or 'file'
-- ARGV[6..] text    pairs    key, and whole number or '': not set any more
-- RETURN    { now_us, 'OK', before, after }: the field as it was, and as it is.
--           { now_us, 'LATE' | 'SETTLED' }, { now_us, 'WRONGTYPE', key },
--           { now_us, 'BADQUEUE', true name }
-- COST      O(settings)

local timeout, record = KEYS[2], KEYS[3]
local name, mode, origin = ARGV[3], ARGV[4], ARGV[5]

local now_us, queue, refused = Begin.write(record, name, { timeout, 'zset' })
if refused then return refused end

-- Settings that only a newer broker knows are kept.
local before, values = queue.settings or '', {}
for key, value in string.gmatch(before, ' ([%w_]+):(%d+/%a+)') do
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

if after == '' then
  redis.call('HDEL', record, 'settings')
  if queue.format == 'modern' then redis.call('HDEL', record, 'format') end
else
  -- Brokers before DQ.SETUP forget a record without a format, whatever is set in it.
  redis.call('HSET', record, 'name', name, 'settings', after, 'format', queue.format or 'modern')
end
return Call.applied({ now_us, 'OK', before, after })
