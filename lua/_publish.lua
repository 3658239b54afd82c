-- The publish rule: after all writes of a call, if the head of the zset is a member that this call
-- put there or made earlier, its score is published once. Nothing else is.

local function publish(list, score)
  local channel = 'redisson_delay_queue_channel:' .. string.sub(list, #'redisson_delay_queue:' + 1)
  redis.call('PUBLISH', channel, string.format('%.0f', math.floor(score)))
end

-- 1 if the head is one of `mine` (a set of members), else 0. Redisson parses what is published as
-- a long, and scores of other programs can be anything: those are not published.
local function publish_head(timeout, list, mine)
  local head = redis.call('ZRANGE', timeout, 0, 0, 'WITHSCORES')
  if not head[1] or not mine[head[1]] then return 0 end
  local score = tonumber(head[2])
  if score >= 0 and score < 1e15 then publish(list, score) end
  return 1
end
