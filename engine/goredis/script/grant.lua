-- The long way of acquire and share: grants, queues, or tells why not. Needs
-- the locals id, sort, ttl, reserve, queues (see turn.lua), weight, ballot, span,
-- reason and yields.
--#include state
--#include endings
--#include leases
--#include leave
--#include queue
--#include finish
--#include turn
--#include join
reap()
expire(id)
if yields and yields ~= '' then drop(yields) end
local cause = ending(id)
if cause then
  advance()
  return finish({5, cause})
end
if waiter ~= id and ending(waiter) then queues = false end -- its turn was withdrawn
if held(id) then
  extend(id, ttl)
  advance()
else
  -- One that waits learns of a mark by the answer.
  local waited = marked > now and dropWaiter(waiter) or marked <= now and seen(waiter)
  advance(waiter)
  if waited then sweep(true) end
end
if held(id) then return finish({1, granted(id), held(id) - now}) end
if marked > now then return finish(kind == sort and {9, marked - now} or {6}) end
local soon, next = soonest()
next = math.max(0, next - now) -- the first may have expired, but not been reaped
local place = queued > 0 and call('ZSCORE', LINE, 'q' .. id)
if place then return finish({2, call('ZCOUNT', LINE, 1, '(' .. place), next, last}) end
local answer = admit(soon, next)
if answer[1] == 1 then advance() end -- after a grant the turns that were passed, or were behind
return finish(answer)
