-- The packed member: what it carries and what it is called. Knows no key.
-- Keeps: any bytes get an answer, never an error.
--
--   modern   id length (1) | id | payload length (8, little-endian) | payload
--   legacy   id (8)             | payload length (8, little-endian) | payload

-- payload, id, format; nothing for a member that is neither. The exact length decides. Where both
-- fit with an id length of 7 both lengths stand at the same place: legacy, the payload is the same.
local function read(member)
  local size, id_size = #member, string.byte(member, 1)
  if not id_size then return end
  if id_size ~= 7 and size >= 9 + id_size
    and struct.unpack('<I8', member, 2 + id_size) == size - 9 - id_size then
    return string.sub(member, 10 + id_size), string.sub(member, 2, 1 + id_size), 'modern'
  end
  if size >= 16 and struct.unpack('<I8', member, 9) == size - 16 then
    return string.sub(member, 17), string.sub(member, 1, 8), 'legacy'
  end
end

local function hex(id)
  return string.format(string.rep('%02x', #id), string.byte(id, 1, -1))
end

local function message_id(score, id)
  return score .. '-' .. hex(id)
end
