-- Tells the client of a holder ID, in a cluster: by the shard of the resource,
-- and if nobody listens there (Redis before 7; a client that has not found the
-- shard yet, as after a failover or while a slot moves) by a message to all nodes.
local function notify(id, message)
  local prefix, client = string.match(KEYS[1], '^(.*):{'), string.match(id, '^[^.]*')
  local heard = redis.REDIS_VERSION_NUM and redis.pcall('SPUBLISH', KEYS[1] .. ':wake:' .. client, message)
  if type(heard) ~= 'number' or heard == 0 then
    redis.pcall('PUBLISH', prefix .. ':wake:' .. client, message)
  end
end
