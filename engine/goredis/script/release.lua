-- Gives a lease back or leaves the queue, and grants what that frees.
-- KEYS  core, holders, queue, info, endings of the resource
-- ARGV  1 holder ID, 2 token or 0, 3 retention, 4 'w' to withdraw the ID or ''
-- Returns  0, or -cause if nothing was held (never with 'w')
local call = redis.call
--#include clock
-- The short way: a lease of capacity 1, nobody waits, no endings to look at.
-- The kind in place of the deadline says that it is free.
local core = call('HMGET', KEYS[1], 'holder', 'deadline', 'queued', 'ended', 'kind')
if core[1] == ARGV[1] and core[3] == '0' and core[4] == '0' and ARGV[4] == '' then
  if (tonumber(core[2]) or 0) > now then
    call('HSET', KEYS[1], 'deadline', core[5])
    return 0
  end
end
local id, retention, withdraw = ARGV[1], ARGV[3] + 0, ARGV[4] == 'w'
--#include state
--#include endings
--#include leases
--#include queue
--#include notify
--#include finish
reap()
local had = drop(id)
advance()
if withdraw then
  remember(id, 'w')
elseif not had then
  local cause = why(id, ARGV[2] + 0)
  if cause ~= RELEASED then return finish(-cause) end
end
return finish(0)
