-- Ends a lease or a wait by force and tells its client.
-- KEYS  core and line of the resource
-- ARGV  1 holder ID
-- Returns  0, or -cause if the ID neither holds nor waits
local call = redis.call
--#include clock
local id = ARGV[1]
--#include state
--#include endings
--#include leases
--#include queue
--#include notify
--#include finish
reap()
local had = drop(id)
if had then remember(id, 'b') end
advance()
if not had then return finish(-why(id, 0)) end
finish(0)
notify(id, 'b ' .. id)
return 0
