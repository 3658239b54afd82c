-- The packed member: what it carries and what it is called. Knows no key.
-- Keeps: any bytes get an answer, never an error.
--
--   modern   id length (1) | id | payload length (8, little-endian) | payload
--   legacy   id (8)             | payload length (8, little-endian) | payload

-- Where the payload begins, where the id and how long it is, and the format; nothing for a member
-- that is neither. The exact length decides. Where both fit with an id length of 7 both lengths
-- stand at the same place: legacy, the payload is the same. Copies nothing.
function Member.parts(member)
  local size, id_size = #member, string.byte(member, 1)
  if not id_size then return end
  if id_size ~= 7 and size >= 9 + id_size
    and struct.unpack('<I8', member, 2 + id_size) == size - 9 - id_size then
    return 10 + id_size, 2, id_size, 'modern'
  end
  if size >= 16 and struct.unpack('<I8', member, 9) == size - 16 then return 17, 1, 8, 'legacy' end
end

-- payload, id, format; nothing for a member that is neither.
function Member.read(member)
  local payload, id, id_size, format = Member.parts(member)
  if not payload then return end
  return string.sub(member, payload), string.sub(member, id, id + id_size - 1), format
end

-- The id alone: of a large member the payload is dear to copy.
function Member.id(member)
  local payload, id, id_size = Member.parts(member)
  return payload and string.sub(member, id, id + id_size - 1)
end

local of_8 = string.rep('%02x', 8)

function Member.hex(id)
  -- Nearly all: in half of the time.
  if #id == 8 then return string.format('%08x%08x', struct.unpack('>I4I4', id)) end
  return string.format(#id == 8 and of_8 or string.rep('%02x', #id), string.byte(id, 1, -1))
end

function Member.message_id(score, id)
  return score .. '-' .. Member.hex(id)
end
