-- A holder writes a new value of the counter, and leaves. It is refused if a later token has entered.
--
-- KEYS: the hash of the resource
-- ARGV: the token; the value
-- Returns: 1, or 0 if the token is stale
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'value', ARGV[2], 'till', 0)
redis.call('HINCRBY', KEYS[1], 'writes', 1)
return 1
