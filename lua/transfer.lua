-- Move the messages that are due to the end of the destination, unreadable ones to quarantine.
--
-- KEYS[1]  list  destination    bare payloads
-- KEYS[2]  zset  timeout        member -> due, Unix ms
-- KEYS[3]  list  list           the members in offer order
-- KEYS[4]  hash  queue_key      true name, pause, order_list, unlisted_until
-- KEYS[5]  hash  names          name -> message id
-- KEYS[6]  hash  ids            hex of the id -> name
-- KEYS[7]  zset  quarantine     unreadable member -> its score
-- ARGV[1]  text  queue
-- ARGV[2]  int   messages_max
-- ARGV[3]  int   bytes_max      of members; one message is moved however large
-- RETURN   { now_us, 'OK' | 'PAUSED', next, paused_until, pause_ended_ms, quarantined, shared,
--            each, end_us, moved... },
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
--          next: score of the head, '' if none. paused_until: '', ms, or -1 (until resumed).
--          pause_ended_ms: when the last pause ended, 0 if there was none. quarantined: how many.
--          shared, each: what taking them off the list cost, as _strike.lua says
--          end_us: TIME at the end; now_us where it stands still in a script
--          moved: score, count, score, count... of what reached the destination, in its order
-- COST     O(log pending) for each message while the list is in due order; else one pass over the
--          list in all, for each message where ids are not in order; O(log pending) for each where
--          no order list is kept. Nothing due: nothing written

local destination, timeout, list, queue_key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local names, ids, quarantine = KEYS[5], KEYS[6], KEYS[7]
local queue, messages_max, bytes_max = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local refused, keeps_list = refuse(now_us, queue_key, queue, {
  timeout, 'zset', destination, 'list', list, 'list',
  names, 'hash', ids, 'hash', quarantine, 'zset',
})
if refused then return refused end

local recorded = redis.call('HMGET', queue_key, 'paused_until', 'unlisted_until')
local paused_until, unlisted_until = recorded[1], recorded[2]
local status, pause_ended_ms = 'OK', 0
if paused_until then
  local until_ms = tonumber(paused_until)
  if until_ms < 0 or until_ms > now_us / 1000 then
    status = 'PAUSED'
  else
    paused_until, pause_ended_ms = false, until_ms
  end
end

-- Due members are the ranks 0..due-1. Read in chunks that begin with one and double: the limit in
-- bytes has to be felt before much is read, and what comes may be larger than what came.
local now_ms, all_due = string.format('%.3f', now_us / 1000), 0
if status == 'OK' then all_due = redis.call('ZCOUNT', timeout, '-inf', now_ms) end
local due = math.min(all_due, messages_max)
local members, taken, bytes, chunk = {}, 0, 0, 1
local payloads, poison, pushed = {}, {}, 0
local reply, run_at = { now_us, status, '', paused_until or '', pause_ended_ms, 0, 0, 0, now_us }, 0
while taken < due do
  local found = redis.call('ZRANGE', timeout, taken, math.min(taken + chunk, due) - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local member, score = found[i], found[i + 1]
    bytes = bytes + #member
    if bytes > bytes_max and taken > 0 then
      due = taken
      break
    end
    taken = taken + 1
    members[taken] = member
    local payload = read(member)
    if payload then
      pushed = pushed + 1
      payloads[pushed] = payload
      if reply[run_at] == score then
        reply[run_at + 1] = reply[run_at + 1] + 1
      else
        run_at = #reply + 1
        reply[run_at], reply[run_at + 1] = score, 1
      end
    else
      poison[#poison + 1], poison[#poison + 2] = score, member
    end
  end
  if bytes >= bytes_max then due = taken end
  chunk = math.min(2 * chunk, 16)
end

-- The first ranks, as many as are due until `unlisted_until`, have left the list before: all that
-- was pending was due then, and the whole list went at once. This holds while the list has as many
-- entries as there are members behind them; else somebody has listed one with an old score. (What
-- Redisson's `retainAll` left in the zset alone could hide one; then its entry is stale.)
local unlisted = 0
if unlisted_until and taken > 0 then
  unlisted = redis.call('ZCOUNT', timeout, '-inf', unlisted_until)
  if unlisted <= taken then redis.call('HDEL', queue_key, 'unlisted_until') end
  local listed = redis.call('ZCARD', timeout) - unlisted
  if redis.call('LLEN', list) ~= listed then unlisted = 0 end
end

-- Takes the moved members off the list. A run of them at its head, in whatever order, is trimmed
-- in one step; a stale member there would only be in the way and goes with it. Pages are small:
-- what is not due may be large.
local function trim()
  local gone = math.min(unlisted, taken)
  local run, left, page_size, ended, stays = 0, nil, 4, false, false
  local function goes(listed)
    if not left then
      if listed == members[gone + run + 1] then return true end
      left = {}
      for i = gone + run + 1, taken do left[members[i]] = true end
    end
    local moved = left[listed]
    left[listed] = nil
    return moved or not redis.call('ZSCORE', timeout, listed)
  end
  while gone + run < taken and not ended and not stays do
    local size = math.min(page_size, taken - gone - run)
    local page = redis.call('LRANGE', list, run, run + size - 1)
    for i = 1, #page do
      stays = not goes(page[i])
      if stays then break end
      run = run + 1
    end
    ended, page_size = #page < size, 64
  end
  if run > 0 then redis.call('LTRIM', list, run, -1) end
  if not left or (ended and not stays) then return 0, 0 end
  local all_pending = taken + redis.call('ZCARD', timeout)
  if all_due == all_pending and redis.call('LLEN', list) >= long then
    redis.call('UNLINK', list)
    redis.call('HSET', queue_key, 'unlisted_until', now_ms)
    return 0, 0
  end
  local rest = {}
  for i = gone + 1, taken do
    if left[members[i]] then rest[#rest + 1] = members[i] end
  end
  return strike(list, rest)
end

if taken > 0 then
  -- The write that frees memory goes first: then Redis lets the others follow at its limit.
  redis.call('ZREMRANGEBYRANK', timeout, 0, taken - 1)
  for from = 1, pushed, 1000 do
    redis.call('RPUSH', destination, unpack(payloads, from, math.min(from + 999, pushed)))
  end
  for from = 1, #poison, 1000 do
    redis.call('ZADD', quarantine, unpack(poison, from, math.min(from + 999, #poison)))
  end
  if keeps_list then
    reply[7], reply[8] = trim()
  else
    -- What Redisson lists all the same would stay for ever.
    redis.call('UNLINK', list)
  end
  if redis.call('EXISTS', ids) == 1 then
    local named = {}
    for i = 1, taken do
      local _, id = read(members[i])
      if id then named[#named + 1] = hex(id) end
    end
    forget(names, ids, named)
  end
end

reply[3] = redis.call('ZRANGE', timeout, 0, 0, 'WITHSCORES')[2] or ''
reply[6] = #poison / 2
if taken > 0 then
  time = redis.call('TIME')
  reply[9] = time[1] * 1000000 + time[2]
end
return reply
