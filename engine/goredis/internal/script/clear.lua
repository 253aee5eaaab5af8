-- Clears a portion of what has ended, as every script does besides its own work: ends expired
-- leases, and grants from the front of the line. It also looks for dead waiters.
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
