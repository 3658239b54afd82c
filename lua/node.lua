-- Claim a node number for the ids of this broker, or refresh the claim.
--
-- KEYS[1]  string  node       token of the broker that holds this number
-- ARGV[1]  text    token      of this broker's start, unlike any other
-- ARGV[2]  int     expiry_ms  after which a claim that is not refreshed is void
-- RETURN   { now_us, 'OK', 1 claimed or refreshed | 0 another's }, { now_us, 'WRONGTYPE', key }
-- COST     O(1)

local node = KEYS[1]
local token, expiry_ms = ARGV[1], ARGV[2]

local now_us = Begin.now()
local kind = redis.call('TYPE', node).ok
if kind ~= 'none' and kind ~= 'string' then return { now_us, 'WRONGTYPE', node } end
local owner = redis.call('GET', node)
if owner == token then
  redis.call('PEXPIRE', node, expiry_ms)
elseif not owner then
  redis.call('SET', node, token, 'PX', expiry_ms)
end
return { now_us, 'OK', (not owner or owner == token) and 1 or 0 }
