-- Ask what this user may do: make each call, and say how Redis refused it. Run with the flag
-- `no-writes` in front, with which Redis checks the user's rights and then refuses what writes.
--
-- ARGV[1..] text  call  command and arguments, with spaces between
-- RETURN    { now_us, 'OK', error of each call... }: '' where it was answered
-- COST      O(1) for each call

local calls = ARGV

local time = redis.pcall('TIME')
local reply = { (time[1] or 0) * 1000000 + (time[2] or 0), 'OK' }
for i = 1, #calls do
  local words = {}
  for word in string.gmatch(calls[i], '%S+') do words[#words + 1] = word end
  local answer = redis.pcall(unpack(words))
  reply[i + 2] = type(answer) == 'table' and answer.err or ''
end
return reply
