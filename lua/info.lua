-- Read the state of one queue.
--
-- KEYS[1]   list  destination  or a stream; may hold another type
-- KEYS[2]   zset  timeout      member -> due, Unix ms
-- KEYS[3]   list  list         the members in offer order
-- KEYS[4]   hash  record       true name, pause, format, order_list, settings, tokens
-- KEYS[5]   hash  names        name -> message id
-- KEYS[6]   zset  quarantine   unreadable member -> its score
-- KEYS[7]   hash  all          pause of all queues
-- KEYS[8]   hash  ids          hex of the id -> name
-- KEYS[9]   zset  leased       id -> until, ms
-- KEYS[10]  zset  retry        id -> when it can be taken again, ms
-- KEYS[11]  zset  dead         id -> died, ms
-- KEYS[12]  zset  crons        name of a schedule -> next occurrence, ms; inf while it is paused
-- KEYS[13]  zset  first        due messages with a priority
-- KEYS[14]  none  guard        the channel's name, never a key: see _begin.lua
-- ARGV[1]  text  queue
-- ARGV[2]  int   known        when the head is due as far as is known, ms; or ''
-- RETURN   { now_us, 'OK', pending, ready, next_due, listed, quarantined, paused_until, format,
--          ttl_ms, named, layout, paused_all, trouble, leased, waiting, dead, oldest_lease,
--          crons, next_cron, settings, held_by_rate },
--          { now_us, 'WRONGTYPE', key }, { now_us, 'BADQUEUE', true name }
--          ready: of a stream its entries; -1 if the destination holds another type; those with a
--          priority are among them. next_due: score of the head, '' if none.
--          paused_until: ms, -1 until resumed, '' if not paused; of the queue or of all,
--          whichever is later. paused_all: 1 while all are. format: 'modern' | 'legacy'.
--          ttl_ms: the least of timeout and list, -1 if neither expires. layout: 'redisson', or
--          'zset' where no order list is kept. named, quarantined: -1 where the key holds another
--          type; and so leased, waiting, dead. A lease that ran out counts as waiting.
--          oldest_lease: the end of the one that ends first, ms, or ''. crons: how many schedules
--          there are, -1 as above; next_cron: the least next occurrence, '' if there is none, inf
--          if all are paused. trouble: what cannot be
--          used of the keys, and is done without; or ''. held_by_rate: due messages that the rate
--          of the queue holds back now, if there are any
-- COST     O(log pending), whatever the size of the members

local destination, timeout, list, record, names, quarantine, all, ids = unpack(KEYS)
local leased, retry, dead, crons, first = KEYS[9], KEYS[10], KEYS[11], KEYS[12], KEYS[13]
local known = tonumber(ARGV[2])

local kinds = { timeout, 'zset', list, 'list' }
local now_us, queue, refused = Begin.read(record, ARGV[1], kinds)
if refused then return refused end

local trouble = {}
local function size(command, key)
  local found = redis.pcall(command, key)
  if type(found) == 'number' then return found end
  trouble[#trouble + 1] = key .. ' holds another type'
  return -1
end
local named, quarantined = size('HLEN', names), size('ZCARD', quarantine)
size('HLEN', ids)
local held, waiting, died = size('ZCARD', leased), size('ZCARD', retry), size('ZCARD', dead)
local schedules = size('ZCARD', crons)
local next_cron = schedules > 0 and Cron.head(crons) or ''
local oldest = ''
if held > 0 then
  local over = redis.call('ZCOUNT', leased, '-inf', math.floor(now_us / 1000))
  held = held - over
  if waiting >= 0 then waiting = waiting + over end
  if held > 0 then oldest = redis.call('ZRANGE', leased, over, over, 'WITHSCORES')[2] or '' end
end

local ready, prior = redis.pcall('LLEN', destination), size('ZCARD', first)
if type(ready) ~= 'number' and Record.destination(queue.settings) == 'stream' then
  ready = redis.pcall('XLEN', destination)
end
if type(ready) == 'number' then ready = ready + math.max(prior, 0) end
local pending = redis.call('ZCARD', timeout)
local next_due = Head.score(timeout, pending, math.floor(now_us / 1000), known)
local own_ms = tonumber(queue.paused_until or 0)
if not own_ms or not (own_ms == -1 or (own_ms >= 0 and own_ms < 1e15)) then
  trouble[#trouble + 1] = 'paused_until in ' .. record .. ' is no time'
end
local of_all = redis.pcall('HGET', all, 'paused_until')
local paused_until = Pause.of(queue.paused_until, of_all, now_us / 1000)
local all_until = Pause.of(false, of_all, now_us / 1000)
local ttl_ms, other_ttl_ms = redis.call('PTTL', timeout), redis.call('PTTL', list)
if ttl_ms < 0 or (other_ttl_ms >= 0 and other_ttl_ms < ttl_ms) then ttl_ms = other_ttl_ms end

local held_by_rate
-- A pause holds back all of them.
if (Record.setting(queue.settings, 'rate') or 0) > 0 and paused_until == '' then
  late()
  local due = redis.call('ZCOUNT', timeout, '-inf', string.format('%.3f', now_us / 1000))
  local tokens = Rate.tokens(queue, now_us / 1000)
  if due > tokens then held_by_rate = due - math.floor(tokens) end
end

return {
  now_us, 'OK',
  pending,
  type(ready) == 'number' and ready or -1,
  next_due,
  redis.call('LLEN', list),
  quarantined,
  paused_until,
  queue.format or 'modern',
  math.max(ttl_ms, -1),
  named,
  queue.keeps_list and 'redisson' or 'zset',
  all_until == '' and 0 or 1,
  table.concat(trouble, '; '),
  held, waiting, died, oldest,
  schedules, next_cron,
  queue.settings or '',
  held_by_rate,
}
