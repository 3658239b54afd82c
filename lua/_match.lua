-- Finds out which of some payloads a member carries, in an envelope or not.
-- Keeps: for most members that carry none, their last bytes and their size show it, without a copy.
--
-- Each payload comes as a pair of its size and its bytes. Of a large payload only the last bytes
-- come: then a member that may carry it is in doubt, and a later call with all bytes decides.

-- Returns a function that takes a member, and returns the number of its payload, from 1, and
-- whether that is in doubt; nothing if the member carries none. `given` has the pairs from the
-- index `first` on. Of equal payloads the first one counts.
function Match.any_of(given, first)
  local numbers, doubtful, sizes, tails, tail_size = {}, {}, {}, {}, 8
  for i = #given - 1, first, -2 do
    local size, bytes, number = tonumber(given[i]), given[i + 1], (i - first) / 2 + 1
    sizes[size] = true
    tail_size = math.min(tail_size, #bytes)
    if #bytes == size then
      numbers[bytes] = number
    else
      doubtful[size] = doubtful[size] or {}
      table.insert(doubtful[size], { number, bytes })
    end
  end
  for i = first, #given, 2 do tails[string.sub(given[i + 1], -tail_size)] = true end
  return function(member)
    if tail_size > 0 and not tails[string.sub(member, -tail_size)] then return end
    local begins = Member.parts(member)
    if not begins then return end
    begins = Envelope.open(member, begins)
    local size = #member - begins + 1
    if not sizes[size] then return end
    local number = numbers[string.sub(member, begins)]
    if number then return number, false end
    for _, one in ipairs(doubtful[size] or {}) do
      if string.sub(member, -#one[2]) == one[2] then return one[1], true end
    end
  end
end
