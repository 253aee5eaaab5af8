-- Releases a lease or takes a waiter out of the line, and grants what that frees.
-- KEYS  core and line of the resource
-- ARGV  1 holder ID, 2 token or 0, and unless both are default: 3 'w' to withdraw
--       the ID or '', 4 how long to mark from now on, if it still holds
-- Returns  0, or if nothing was held, or what was breaking (never with 'w'), -cause or the reason of a break
--#include constants
local call = redis.call
-- Fast paths: a lease that is easy to release (see state.lua). Neither tombstones nor
-- the time matter: a lease that has expired, but has not been reaped, is released.
local core = call('HMGET', KEYS[1], 'holder', 'deadline', 'easy')
local easy = core[1] == ARGV[1] and not ARGV[3] and core[3] ~= '' and core[2] ~= core[3] and core[2] ~= '0'
if easy and string.byte(core[3]) ~= 43 then -- '+': others wait
  call('HSET', KEYS[1], 'deadline', core[3])
  return 0
end
--#include clock
if easy then
  --#include channel
  --#include notify
  --#include front.fast
  local rest = call('HMGET', KEYS[1], 'token', 'keep', 'queued', 'ended')
  if grantFront(rest[1] + 0, rest[2] + 0, rest[4], core[3], rest[3] - 1) then return 0 end
end
if core[3] == 'shared' and not ARGV[3] and core[2] + 0 > now then -- open: see state.lua
  local field = '@' .. ARGV[1]
  local info = call('HGET', KEYS[1], field) or ''
  local weight = string.byte(info, 2) == 32 and string.sub(info, 1, 1) or string.match(info, '^%d+')
  if weight and call('ZREM', KEYS[2], 'h' .. ARGV[1]) == 1 then
    call('HDEL', KEYS[1], field)
    call('HINCRBY', KEYS[1], 'used', '-' .. weight)
    return 0
  end
end
-- The slow path is a function, so that the fast ones do not pay for its locals.
return (function()
local id, withdraw = ARGV[1], ARGV[3] == 'w'
--#include law
local holds = held(id)
local had, broken = drop(id)
if holds then mark(tonumber(ARGV[4] or 0)) end
reap()
advance()
if withdraw then
  bury(id, 'w', now)
elseif broken or not had then
  local refused = refusal(id, ARGV[2] + 0)
  if refused ~= -RELEASED then return finish(refused) end
end
return finish(0)
end)()
