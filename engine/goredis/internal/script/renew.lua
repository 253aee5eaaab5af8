-- Extends a lease to TTL from now, never shortening it.
-- KEYS  core and line of the resource
-- ARGV  1 holder ID, 2 TTL, 3 token
-- Returns  what is left of the lease, or if it is not held -cause or the reason of a break
--#include constants
local call = redis.call
--#include clock
-- Fast path: a lease of capacity 1, and either the expiry is far enough or there is no other work.
-- Waiters do not matter to it.
local core, till = call('HMGET', KEYS[1], 'holder', 'deadline', 'keep'), now + ARGV[2]
if core[1] == ARGV[1] then
  local deadline = tonumber(core[2]) or 0 -- not a number when it is free
  local fast, far = deadline > now and deadline <= till, core[3] + 0 >= till + REACH
  -- Once in a SPELL the slow path checks for waiters, which may have died.
  if fast and not (far and deadline >= till - till % SPELL) then
    local rest = call('HMGET', KEYS[1], 'queued', 'ended', 'birth')
    fast = (rest[1] or '0') == '0' and (far or (rest[2] or '0') == '0')
    if fast and not far then
      --#include expiry
      local kept = math.floor(till + REACH + spare(rest[3] + 0))
      call('HSET', KEYS[1], 'keep', string.format('%.0f', kept))
      -- Older scripts need the fields that a fresh core lacks once its expiry is far.
      if not rest[1] then call('HSET', KEYS[1], 'ended', '0', 'queued', '0', 'tail', '0') end
      call('PEXPIREAT', KEYS[1], math.ceil(kept / 1000)) -- nothing in the line
    end
  end
  if fast then
    call('HSET', KEYS[1], 'deadline', string.format('%.0f', till))
    return ARGV[2] + 0
  end
end
-- The slow path is a function, so that the fast one does not pay for its locals.
return (function()
local id = ARGV[1]
--#include law
reap()
expire(id)
local before = held(id)
if before then
  extend(id, ARGV[2])
  advance()
  if queued > 0 and before < till - till % SPELL then more = true end -- so that clear checks the waiters
  return finish(held(id) - now)
end
advance()
return finish(refusal(id, ARGV[3] + 0))
end)()
