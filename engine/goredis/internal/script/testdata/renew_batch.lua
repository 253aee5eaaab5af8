-- Extends many leases of capacity 1, each as the fast path of renew does. It leaves the others as
-- they are, for renew. Not for a cluster, since the keys are in many slots.
-- KEYS  cores of the resources
-- ARGV  1 TTL, 2 holder IDs, one for each core, with spaces between
-- Returns  0 if all are extended, or a table: the places of the cores, from 1 on,
--       for which renew has to be called
local RETENTION = 600000000 -- the keys outlive what they hold by this
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
local raise = {} -- of each core whose expiry has to be moved: keep, queued, ended and birth
-- plain returns whether no other work is due than to move the expiry: there are no waiters, which may
-- have died. It is needed once in a SPELL.
local function plain(i)
  local rest = call('HMGET', cores[i], 'keep', 'queued', 'ended', 'birth')
  local far = rest[1] >= least
  if not far then raise[i] = rest end
  return (rest[2] or '0') == '0' and (far or (rest[3] or '0') == '0')
end
-- spare returns by how much the expiry of the keys exceeds REACH, so that it is set rarely: four
-- times the age of the state, which begins with the token birth, but at least a quarter of SPELL
-- and at most RETENTION less SPELL. So a name that is used once expires soon.
local function spare(birth)
  local age = birth > 0 and now - birth or 0
  return math.max(SPELL / 4, math.min(4 * age, RETENTION - SPELL))
end
local function extend(i)
  local rest = raise[i]
  if not rest then return call('HSET', cores[i], 'deadline', till) end
  local kept = math.floor(least + spare(rest[4] + 0))
  call('HSET', cores[i], 'deadline', till, 'keep', digits('%.0f', kept))
  -- Older scripts need the fields that a fresh core lacks once its expiry is far.
  if not rest[2] then call('HSET', cores[i], 'ended', '0', 'queued', '0', 'tail', '0') end
  call('PEXPIREAT', cores[i], math.ceil(kept / 1000)) -- nothing in the line
end
local holders = {}
for i = 1, #cores do
  local lease = call('HMGET', cores[i], 'deadline', 'holder')
  local deadline = lease[1]
  if deadline and deadline > past and deadline <= till
    and (deadline >= begun or plain(i)) then
    holders[i] = lease[2]
  else
    holders[i] = ''
  end
end
if table.concat(holders, ' ') == ARGV[2] then -- usually: all of them are held
  for i = 1, #cores do extend(i) end
  return 0
end
local left, i = {}, 0
for id in string.gmatch(ARGV[2], '[^ ]+') do
  i = i + 1
  if holders[i] == id then
    extend(i)
  else
    left[#left + 1] = i
  end
end
return left
