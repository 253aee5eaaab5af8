-- Runs before the script of the caller; removes its own arguments.
-- KEYS    the script's own, then the guard key
-- ARGV    the script's own, then the token, then the retention in ms (0: keep for ever)
-- Returns STALETOKEN <newest> as an error if a newer token was seen; otherwise nothing, and the script runs.
-- A claim never shortens the TTL of a guard key.
do
  local retention, token, guard = tonumber(table.remove(ARGV)), table.remove(ARGV), table.remove(KEYS)
  local seen, left = redis.call('GET', guard), redis.call('PTTL', guard)
  if seen and not tonumber(seen) then
    return redis.error_reply('NOTAGUARD the guard key holds something else')
  end
  local stale = seen and tonumber(seen) > tonumber(token)
  local newest = stale and seen or token
  if retention == 0 or left == -1 then
    redis.call('SET', guard, newest)
  else
    redis.call('SET', guard, newest, 'PX', math.max(left, retention))
  end
  if stale then
    return redis.error_reply('STALETOKEN ' .. seen)
  end
end
