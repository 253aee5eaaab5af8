-- Extends many leases of capacity 1 that are easy to extend, each as renew does in
-- its short way. The others are left as they are, for renew. For one server: the
-- keys lie in many slots.
-- KEYS  cores of the resources
-- ARGV  for each core: holder ID, TTL
-- Returns  for each core: 1, or 0 if renew has to be asked
local call = redis.call
--#include clock
local done = {}
for i, key in ipairs(KEYS) do
  local id, till = ARGV[2 * i - 1], now + ARGV[2 * i]
  local core = call('HMGET', key, 'holder', 'deadline', 'queued', 'keep')
  local deadline = core[1] == id and tonumber(core[2]) or 0 -- not a number when it is free
  done[i] = 0
  if core[3] == '0' and deadline > now and deadline <= till and core[4] + 0 >= till + retention then
    call('HSET', key, 'deadline', string.format('%.0f', till))
    done[i] = 1
  end
end
return done
