-- How every script of one queue begins: the time, whether the call may run, whether each key has
-- its type, whose the keys are, and the queue's record.
-- Keeps: nothing is written. A script that is refused returns the reply that Begin gives it.
--
-- The last key that each script declares is its guard: the name of the queue's channel, which never
-- is a key. While a cluster moves a slot it serves the keys that are still there: a script whose
-- keys all are begins, writes, and dies at the first key that it emptied itself. With a key that is
-- not there Redis refuses the call before its first line (TRYAGAIN, ASK).

-- Microseconds.
function Begin.now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- A numbered call of no queue, or of many: the time, and the reply that refuses it, or nil.
function Begin.call()
  local now_us = Begin.now()
  return now_us, Call.refusal(now_us)
end

-- The queue's record; or nil, and the reply that refuses the call.
-- `kinds` = key, type, key, type... Where nothing is recorded, what is pending or in quarantine
-- (among these keys the zsets) says whose the keys are, unless the queue `claims` them.
function Begin.queue(now_us, record, name, kinds, claims)
  local holds = false
  kinds[#kinds + 1], kinds[#kinds + 2] = record, 'hash'
  for i = 1, #kinds, 2 do
    local kind = redis.call('TYPE', kinds[i]).ok
    if kind ~= 'none' then
      if kind ~= kinds[i + 1] then
        -- The destination of a queue whose settings say that it is a stream.
        local settings = kind == 'stream' and kinds[i] == name and redis.pcall('HGET', record,
          'settings')
        if type(settings) ~= 'string' or not Record.is_stream(settings) then
          return nil, { now_us, 'WRONGTYPE', kinds[i] }
        end
      end
      holds = holds or kind == 'zset'
    end
  end
  local queue = Record.read(record)
  local owner = Record.owner(queue.name, name)
    or (holds and not claims and Record.other_name(name))
  if owner and owner ~= name then return nil, { now_us, 'BADQUEUE', owner } end
  return queue
end

-- A script that only reads: the time, the queue's record, the reply that refuses it.
function Begin.read(record, name, kinds)
  local now_us = Begin.now()
  return now_us, Begin.queue(now_us, record, name, kinds)
end

-- A numbered call of one queue: the same.
function Begin.write(record, name, kinds)
  local now_us, refused = Begin.call()
  if refused then return now_us, nil, refused end
  local queue
  queue, refused = Begin.queue(now_us, record, name, kinds)
  if refused then Call.applied(refused) end
  return now_us, queue, refused
end
