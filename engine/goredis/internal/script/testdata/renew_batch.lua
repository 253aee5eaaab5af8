-- Extends many leases of capacity 1, each as the fast path of renew does. It leaves the others as
-- they are, for renew. Not for a cluster, since the keys are in many slots.
-- KEYS  cores of the resources
-- ARGV  1 TTL, 2 holder IDs, one for each core, with spaces between
-- Returns  0 if all are extended, or a table: the places of the cores, from 1 on,
--       for which renew has to be called
local SPELL = 37500000 -- a renewal looks at the expiry once in this time
local REACH = 637500000 -- so the scripts set the expiry to this at least
local call, cores, digits = redis.call, KEYS, string.format
-- The store's clock: now, in microseconds since 1970. Scripts use no other time. Tests replace
-- this fragment to make time virtual.
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
-- Instants from 2001 to 2286 have 16 digits, so as texts they compare like the numbers, which is
-- faster. The deadline of a free resource is a word, which is greater than all of them.
local till = digits('%.0f', now + ARGV[1])
local past, begun = digits('%.0f', now), digits('%.0f', till - till % SPELL)
local least = digits('%.0f', till + REACH)
-- far returns whether the expiry is far enough and there are no waiters, which may have died. It
-- is needed once in a SPELL.
local function far(core, least)
  local rest = call('HMGET', core, 'keep', 'queued')
  return rest[1] >= least and (rest[2] or '0') == '0'
end
local holders = {}
for i = 1, #cores do
  local lease = call('HMGET', cores[i], 'deadline', 'holder')
  local deadline = lease[1]
  if deadline and deadline > past and deadline <= till
    and (deadline >= begun or far(cores[i], least)) then
    holders[i] = lease[2]
  else
    holders[i] = ''
  end
end
if table.concat(holders, ' ') == ARGV[2] then -- usually: all of them are held
  for i = 1, #cores do call('HSET', cores[i], 'deadline', till) end
  return 0
end
local left, i = {}, 0
for id in string.gmatch(ARGV[2], '[^ ]+') do
  i = i + 1
  if holders[i] == id then
    call('HSET', cores[i], 'deadline', till)
  else
    left[#left + 1] = i
  end
end
return left
