-- Extends a lease to TTL from now, never shortening it.
-- KEYS  core and line of the resource
-- ARGV  1 holder ID, 2 TTL, 3 token
-- Returns  what is left of the lease, or -cause if it is not held
local call = redis.call
--#include clock
-- The short way: a lease of capacity 1, and expiry far enough, or nothing else to be
-- done. It is nothing to those who wait.
local core, till = call('HMGET', KEYS[1], 'holder', 'deadline', 'keep'), now + ARGV[2]
if core[1] == ARGV[1] then
  local deadline = tonumber(core[2]) or 0 -- not a number when it is free
  local short, far = deadline > now and deadline <= till, core[3] + 0 >= till + reach
  -- Once in a spell it is asked whether others wait, who may have died.
  if short and not (far and deadline >= till - till % spell) then
    local rest = call('HMGET', KEYS[1], 'queued', 'ended', 'birth')
    short = (rest[1] or '0') == '0' and (far or (rest[2] or '0') == '0')
    if short and not far then
      --#include spare
      local kept = math.floor(till + reach + spare(rest[3] + 0))
      call('HSET', KEYS[1], 'keep', string.format('%.0f', kept))
      -- Older scripts take the fields that a fresh core lacks for granted once its expiry is far.
      if not rest[1] then call('HSET', KEYS[1], 'ended', '0', 'queued', '0', 'tail', '0') end
      for i = 1, 2 do call('PEXPIREAT', KEYS[i], math.ceil(kept / 1000)) end
    end
  end
  if short then
    call('HSET', KEYS[1], 'deadline', string.format('%.0f', till))
    return ARGV[2] + 0
  end
end
-- The long way is a function, so that the short one does not pay for its locals.
return (function()
local id = ARGV[1]
--#include state
--#include endings
--#include leases
--#include leave
--#include queue
--#include notify
--#include finish
reap()
expire(id)
local before = held(id)
if before then
  extend(id, ARGV[2])
  advance()
  if queued > 0 and before < till - till % spell then more = true end -- so that they are looked at
  return finish(held(id) - now)
end
advance()
return finish(-why(id, ARGV[3] + 0))
end)()
