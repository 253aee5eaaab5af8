-- Ends a lease or a wait by force and tells its client; or the mark.
-- KEYS  core and line of the resource
-- ARGV  1 holder ID, or 'mark'
-- Returns  0, or -cause if the ID neither holds nor waits, or nothing is marked
local call = redis.call
--#include clock
local id = ARGV[1]
--#include state
--#include endings
--#include leases
--#include leave
--#include queue
--#include notify
--#include finish
reap()
local had = id == 'mark' and marked > now
if had then
  marked, changed = 0, true
  call('HSET', CORE, 'marked', 0)
elseif drop(id) then
  had = true
  remember(id, 'b')
end
advance()
if not had then return finish(-why(id, 0)) end
finish(0)
notify(id, 'b ' .. id)
return 0
