-- The publish rule: after all writes of a call, if the head of the zset is a member that this call
-- put there or made earlier, its score is published once. Nothing else is.
-- Keeps: the head is not read, since it may be large.

-- Redisson parses what is published as a long, and scores of other programs can be anything: those
-- are not published.
function Publish.score(list, score)
  if score < 0 or score >= 1e15 then return end
  local channel = 'redisson_delay_queue_channel:' .. string.sub(list, #'redisson_delay_queue:' + 1)
  redis.call('PUBLISH', channel, string.format('%.0f', math.floor(score)))
end

function Publish.is_head(timeout, member)
  local rank = redis.pcall('ZRANK', timeout, member)
  if type(rank) ~= 'table' then return rank == 0 end
  -- A user whose rights are those that earlier brokers asked for may only read the head.
  return redis.call('ZRANGE', timeout, '0', '0')[1] == member
end

-- 1 if the head is one of `mine`, else 0. These members share `score`; those of the call that do
-- not have a greater one.
function Publish.head(timeout, list, mine, score)
  for i = 1, #mine do
    if Publish.is_head(timeout, mine[i]) then
      Publish.score(list, score)
      return 1
    end
  end
  return 0
end
