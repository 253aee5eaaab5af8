-- Clears a portion of what is over, as every script does beside its own work: ends leases that have
-- expired, and grants from the front of the line. It also looks for dead waiters.
-- KEYS  core and line of the resource
-- ARGV  none
-- Returns  0
--#include constants
local call = redis.call
--#include clock
--#include law
reap()
advance()
sweep()
return finish(0)
