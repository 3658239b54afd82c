-- What a due message becomes where only takers have it, and what they are to know of it: its id,
-- whether it has expired, and how often it may be handed out.
-- Keeps: the envelope of a message goes with its payload, whatever becomes of it.
--
--   first  zset  8 bytes that order messages of one score, then the payload in its envelope
--                -> (9 - priority) * 10^13 + due time, ms
--
-- Without a priority the payload in its envelope stands at the end of the destination.

local name_max = 4096 -- bytes of one that takers are told: there is room for headers beside it

-- Of due messages the function that takes index, score, payload and id of each, and returns the
-- payload as it is delivered, and its score in `first` if it has a priority; nothing if it has
-- expired and is dropped. `plan`: settings, now_ms, ids (a key), members, taken; it gets `held`,
-- the fields of names that are held from now on.
function Deliver.to_takers(plan)
  local drops = Record.setting(plan.settings, 'expired') ~= 1
  local holds = Record.setting(plan.settings, 'names_until') == 1
  local names = redis.call('EXISTS', plan.ids) == 1 and Deliver.names(plan) or {}
  plan.held = {}
  return function(i, score, payload, id)
    local name = names[i]
    local shown = name and #name <= name_max and name or nil
    if #id ~= 8 then id = nil end
    if not name and id and string.byte(payload, 1) ~= 0 then
      return Envelope.with_id(id, payload)
    end
    local at, map = Envelope.open(payload)
    map = map or {}
    local due = math.max(0, math.min(math.floor(tonumber(score)), 1e13 - 1))
    map.i, map.n, map.x = id, shown, map.t and math.min(due + map.t, 1e15)
    if map.x and map.x <= plan.now_ms and drops then return end
    if name and id and holds then Held.note(plan.held, name, id) end
    local priority = math.min(map.p or 0, 9)
    local first = priority > 0 and (9 - priority) * 1e13 + due
    return Envelope.pack(map, string.sub(payload, at)), first
  end
end

-- The names of due messages, by index.
function Deliver.names(plan)
  local names = {}
  for from = 1, plan.taken, 1000 do
    local to, digits = math.min(from + 999, plan.taken), {}
    for i = from, to do digits[#digits + 1] = Member.hex(Member.id(plan.members[i]) or '') end
    local found = redis.pcall('HMGET', plan.ids, unpack(digits))
    -- A key of another type holds no names.
    if found.err then return {} end
    for i = from, to do names[i] = found[i - from + 1] end
  end
  return names
end

-- Of what takers are to get: its id, if it has one; itself, with the moment when it expires;
-- whether that has come; and the deliveries that count, if it says how many.
function Deliver.opened(payload, now_ms)
  local id = Envelope.lone_id(payload)
  if id then return id, payload, false end
  local at, map = Envelope.open(payload)
  if not map then return nil, payload, false end
  if map.t and not map.x then
    map.x = math.min(math.floor(now_ms) + map.t, 1e15)
    payload = Envelope.pack(map, string.sub(payload, at))
  end
  return map.i, payload, map.x and map.x <= now_ms, map.l
end

-- A payload that expired, as it is kept among the dead: it may be brought back.
function Deliver.dead(payload)
  local at, map = Envelope.open(payload)
  if not map then return payload end
  map.t, map.x = nil, nil
  return Envelope.pack(map, string.sub(payload, at))
end
