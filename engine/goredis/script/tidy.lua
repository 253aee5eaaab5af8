-- Does what every script does besides its own work: ends what has expired, serves
-- the line; and looks for waiters that died.
-- KEYS  core and line of the resource
-- ARGV  none
-- Returns  0
local call = redis.call
--#include clock
--#include state
--#include endings
--#include leases
--#include leave
--#include queue
--#include notify
--#include finish
reap()
advance()
sweep()
return finish(0)
