-- notify publishes a wake-up to the client of a holder ID, in a cluster: on the shard of the
-- resource, and if there is no subscription (Redis before 7; a client that has not found the shard
-- yet, as after a failover or while a slot moves) to all nodes. It returns nothing, since a node does not
-- know how many have received it.
local function notify(id, message)
  local prefix, client = string.match(KEYS[1], '^(.*):{'), string.match(id, '^[^.]*')
  local received = redis.REDIS_VERSION_NUM and redis.pcall('SPUBLISH', KEYS[1] .. ':wake:' .. client, message)
  if type(received) ~= 'number' or received == 0 then
    redis.pcall('PUBLISH', prefix .. ':wake:' .. client, message)
  end
end
