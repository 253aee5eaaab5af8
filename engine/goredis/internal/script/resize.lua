-- Lowers the weight of a lease and grants what that frees.
-- KEYS  core and line of the resource
-- ARGV  1 holder ID, 2 weight, 3 token
-- Returns  0, 1 if the weight is not between 1 and the present one, or if the lease is
--       not held -cause or the reason of a break
--#include constants
local call = redis.call
--#include clock
local id, weight = ARGV[1], ARGV[2] + 0
--#include law

-- lower sets the weight, or returns false if it is not between 1 and the present one.
local function lower()
  if weight < 1 then return false end
  if capacity == 1 then return weight == 1 end
  local before, rest = string.match(call('HGET', CORE, '@' .. id) or '', '^(%d+)( .*)$')
  if not before or weight > before + 0 then return false end
  if weight < before + 0 then
    call('HSET', CORE, '@' .. id, string.format('%d', weight) .. rest)
    used, changed = used - before + weight, true
  end
  return true
end

reap()
expire(id)
if not held(id) then
  advance()
  return finish(refusal(id, ARGV[3] + 0))
end
local fits = lower()
advance()
return finish(fits and 0 or 1)
