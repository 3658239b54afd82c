-- Which of some payloads a member carries. Uses _member.lua.
-- Keeps: most members that carry none are told by their last bytes, without taking them apart.

-- A function from member to the number of its payload, counted from 1, or nil. Of equal payloads
-- the first one's number.
local function matcher(payloads)
  local numbers, tails, tail_size = {}, {}, 8
  for i = #payloads, 1, -1 do
    numbers[payloads[i]] = i
    tail_size = math.min(tail_size, #payloads[i])
  end
  for i = 1, #payloads do tails[string.sub(payloads[i], -tail_size)] = true end
  return function(member)
    if tail_size > 0 and not tails[string.sub(member, -tail_size)] then return end
    local payload = read(member)
    return payload and numbers[payload]
  end
end
