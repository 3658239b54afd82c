-- The envelope of a payload: what is said of a message beside its payload. Knows no key.
-- Keeps: any bytes get an answer, never an error. `src/domain/envelope.rs` has the same rules.
--
--   00 44 51 01 | size (4, little-endian) | msgpack map of this size | payload
--
--   i  string  id of 8 bytes, which a message keeps in its destination
--   h  array   headers: name, value, name, value...
--   p  int     priority, 0..9; none: 0
--   t  int     TTL from the due time on, ms
--   x  int     when it expires, Unix ms: due time + TTL, written when it is due
--   l  int     deliveries that count, then it is dead; 0: none
--   n  string  name, held until it is done
--
-- Numbers are whole and not negative. Whatever else stands there is no envelope, but a payload that
-- begins so: a payload that would be taken for one is stored in an empty one.

local magic = '\0DQ\1'
-- An envelope that has an id only, up to that: most are such.
local of_id = magic .. '\12\0\0\0\129\161i\168'
local keys = { 'i', 'n', 'p', 't', 'x', 'l', 'h' }

Envelope.bytes_max = 16384 -- of the map

-- Where the payload begins, and the map, of what begins at `from`, 1 if it is not told; `from` and
-- nil for a payload without an envelope.
function Envelope.open(text, from)
  from = from or 1
  -- The first byte decides for nearly all.
  if string.byte(text, from) ~= 0 or #text < from + 8 or string.sub(text, from, from + 3) ~= magic
  then
    return from
  end
  local size = struct.unpack('<I4', text, from + 4)
  if size > Envelope.bytes_max or from + 7 + size > #text then return from end
  local packed = string.sub(text, from + 8, from + 7 + size)
  local read, map, more = pcall(cmsgpack.unpack, packed)
  if not read or type(map) ~= 'table' or more ~= nil then return from end
  for key, value in pairs(map) do
    local kind = type(value)
    local fits
    if key == 'i' then
      fits = kind == 'string' and #value == 8
    elseif key == 'n' then
      fits = kind == 'string'
    elseif key == 'h' then
      fits = kind == 'table' and #value > 0 and #value % 2 == 0
      for at, name in pairs(fits and value or {}) do
        fits = fits and type(at) == 'number' and type(name) == 'string'
      end
    elseif key == 'p' or key == 't' or key == 'x' or key == 'l' then
      fits = kind == 'number' and value >= 0 and value <= 1e15 and value % 1 == 0
    end
    if not fits then return from end
  end
  return from + 8 + size, map
end

-- The payload in an envelope with this map.
function Envelope.pack(map, payload)
  local packed, count = '', 0
  for _, key in ipairs(keys) do
    if map[key] then packed, count = packed .. cmsgpack.pack(key, map[key]), count + 1 end
  end
  packed = string.char(128 + count) .. packed
  return magic .. struct.pack('<I4', #packed) .. packed .. payload
end

-- The payload in an envelope with this id of 8 bytes alone.
function Envelope.with_id(id, payload) return of_id .. id .. payload end

-- The id of such an envelope, which is read without a copy of the payload; else nil.
function Envelope.lone_id(text)
  if string.sub(text, 1, 12) == of_id and #text >= 20 then return string.sub(text, 13, 20) end
end

-- A payload as it is stored where it may be taken for one in an envelope: in an empty one.
function Envelope.guarded(payload)
  return string.sub(payload, 1, 4) == magic and Envelope.pack({}, payload) or payload
end

-- What is in the envelope of a payload that may have one.
function Envelope.content(text)
  local at = Envelope.open(text)
  return at == 1 and text or string.sub(text, at)
end
