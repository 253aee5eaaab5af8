-- Reads the stock, or sells one unit of it, under a fencing token. The first read or
-- sale claims the stock for the token; later calls with a lower token are refused.
-- KEYS[1]  the stock: a hash with units, sold, token and wrote
-- ARGV[1]  fencing token
-- ARGV[2]  units that are left after the sale, or '' to read
-- Returns  {'ok', units} or {'stale', highest token seen}
local top = redis.call('HGET', KEYS[1], 'token') or '0'
if tonumber(ARGV[1]) < tonumber(top) then
  return {'stale', top}
end
redis.call('HSET', KEYS[1], 'token', ARGV[1])
-- One sale per token: a repeated command counts once.
if ARGV[2] ~= '' and redis.call('HGET', KEYS[1], 'wrote') ~= ARGV[1] then
  redis.call('HSET', KEYS[1], 'units', ARGV[2], 'wrote', ARGV[1])
  redis.call('HINCRBY', KEYS[1], 'sold', 1)
end
return {'ok', redis.call('HGET', KEYS[1], 'units')}
