-- A holder enters a guarded counter with its fencing token.
--
-- KEYS: the hash of the resource; the list of broken promises
-- ARGV: the token; now, and the end of the holder's trust window, in µs of the clock that all processes share;
--       the resource, and the process, for the list
-- Returns: {"in", value}, or {"stale", the latest token}
local latest = tonumber(redis.call('HGET', KEYS[1], 'token') or 0)
local token, now, till = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if token < latest then
  return {'stale', latest}
end
local who = ' of ' .. ARGV[4] .. ': token ' .. ARGV[1] .. ' of ' .. ARGV[5] .. ' and ' .. tostring(redis.call('HGET', KEYS[1], 'who'))
if token == latest then
  redis.call('RPUSH', KEYS[2], 'a token entered twice' .. who)
end
if tonumber(redis.call('HGET', KEYS[1], 'till') or 0) > now then
  redis.call('RPUSH', KEYS[2], 'two open trust windows' .. who)
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'till', till, 'who', ARGV[5] .. ' with token ' .. ARGV[1])
redis.call('HINCRBY', KEYS[1], 'entries', 1)
return {'in', tonumber(redis.call('HGET', KEYS[1], 'value') or 0)}
