-- Extends a lease to TTL from now, never shortening it.
-- KEYS  core, holders, queue, info, endings of the resource
-- ARGV  1 holder ID, 2 TTL, 3 TTL + retention, 4 token
-- Returns  what is left of the lease, or -cause if it is not held
local call = redis.call
--#include clock
-- The short way: a lease of capacity 1, nobody waits, expiry far enough.
local core = call('HMGET', KEYS[1], 'holder', 'deadline', 'queued', 'keep')
if core[1] == ARGV[1] and core[3] == '0' and core[4] + 0 >= now + ARGV[3] then
  local deadline = tonumber(core[2]) or 0 -- not a number when it is free
  if deadline > now and deadline <= now + ARGV[2] then
    call('HSET', KEYS[1], 'deadline', now + ARGV[2])
    return ARGV[2] + 0
  end
end
local id, retention = ARGV[1], ARGV[3] - ARGV[2]
--#include state
--#include endings
--#include leases
--#include queue
--#include notify
--#include finish
reap()
if held(id) then
  extend(id, ARGV[2])
  advance()
  return finish(held(id) - now)
end
advance()
return finish(-why(id, ARGV[4] + 0))
