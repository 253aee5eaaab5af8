-- Handles a request that neither holds nor waits. A plain attempt waits under its own ID, in the
-- order of arrival. A ballot waits by its turn, behind all plain attempts, in the order of the
-- places that the proposers choose. queues is 'q' or nil to wait, and '' not to wait. For a ballot
-- it is its place, followed by a blank and the ID of its turn if it waits.
local waiter, turn = id, nil -- the ID that waits, and its score if it is a turn
if ballot == 0 then
  queues = queues ~= ''
else
  local at, name = string.match(queues or '', '^(%d+) ?(.*)$')
  if at then turn = TURNS + at / TURN_STEP end
  queues = turn and name ~= ''
  if queues then waiter = name end
end

-- isFirst returns whether no waiter is ahead of the request. Only a ballot with a place passes
-- waiters: turns whose places are not before its own.
local function isFirst()
  if queued == 0 then return true end
  if not turn then return false end
  local member, score = front()
  return score >= TURNS and (score >= turn or member == 'q' .. waiter)
end

-- listens returns whether to note that a message can reach a waiter; see gone.
local function listens(id) return capacity == 1 and not deaf(id) end

local function join()
  if turn then
    enter(string.format('%.17g', turn), 'q' .. waiter)
    if called == waiter then
      call('HDEL', CORE, 'called')
      called = nil
    end
  else
    tail = tail + 1
    enter(tail, 'q' .. waiter)
  end
  call('HSET', CORE, '@' .. waiter, string.format('%016.0f %016.0f ', now, now) ..
    (listens(waiter) and '0' or '') .. string.format('%.0f %.0f %.0f %.0f ', weight, ttl, reserve, span) .. reason)
  queued = queued + 1
  keep(now + ttl)
end

--#include recall
--#include admit.poll
--#include admit.decide

--#section poll
-- polled records the poll of a waiter. It returns false if the ID does not wait.
local function polled(id)
  local info = queued > 0 and call('ZSCORE', LINE, 'q' .. id) and call('HGET', CORE, '@' .. id)
  if not info then return false end
  local rest = string.gsub(string.sub(info, 35), '^0', '', 1)
  call('HSET', CORE, '@' .. id, string.format('%016.0f', now) .. string.sub(info, 17, 34) .. (listens(id) and '0' or '') .. rest)
  local _, _, _, wants = string.match(info, WAITER)
  keep(now + wants)
  return true
end

-- pollIn returns how long a turn that is not the front should wait before it polls: until the
-- first deadline, or until the front counts as dead, if it could be granted and does not poll.
local function pollIn(next)
  local member, score = front()
  local seen, _, weight = string.match(call('HGET', CORE, '@' .. string.sub(member, 2)) or '', WAITER)
  if not weight or score < TURNS or used + weight > capacity then return next end
  local dies = math.max(0, seen + WAITER_LIFE - now)
  return next == 0 and dies or math.min(next, dies)
end

-- lastTurn returns the highest place of a turn in the line, or 0.
local function lastTurn()
  local last = queued > 0 and call('ZREVRANGEBYSCORE', LINE, '(' .. EPOCH, TURNS, 'WITHSCORES', 'LIMIT', 0, 1)
  return last and last[2] and (last[2] - TURNS) * TURN_STEP or 0
end

--#section decide
-- admit grants, queues or refuses the request. No request passes the front of the line: a new one
-- is granted only if no waiter is ahead of it.
local function admit(soon, next)
  local limit = tonumber(string.match(sort, ':(%d+)$'))
  if marked > 0 then -- it has ended; if the clock were set back, a marked resource would have waiters
    marked, changed = 0, true
    call('HDEL', CORE, 'marked')
  end
  if weight > limit then return {7} end
  if used == 0 and queued == 0 then
    if kind ~= sort then
      kind, capacity, changed = sort, limit, true
    end
  elseif kind ~= sort then
    return {6}
  end
  if isFirst() and used + weight <= capacity then
    -- A state that was forgotten may have given any token up to RETENTION ago.
    local floor = math.max(last, now - RETENTION)
    if ballot == 0 or ballot > floor and ballot <= now + BALLOT_AHEAD then
      dropWaiter(waiter)
      local token = hold(id, weight, ttl, reserve, ballot, reason)
      mark(span)
      return {1, token, ttl, lastTurn()}
    end
    keep(now) -- the kind may be new
    return ballot <= floor and {4, math.max(last, now), next} or {8}
  end
  if queues and ballot == 0 then
    join()
    if queued == 1 then recall() end
    return {2, queued - 1, next, last}
  end
  if ballot == 0 and capacity == 1 then recall() end
  local ahead = 0
  if queues then
    local rank = call('ZRANK', LINE, 'q' .. waiter)
    if not rank then
      join()
      rank = call('ZRANK', LINE, 'q' .. waiter)
    end
    ahead = rank - call('ZCOUNT', LINE, '-inf', '(1')
  end
  local again = ahead > 0 and pollIn(next) or next
  if not soon then return {3, again, queued, last, ahead} end
  local info = note
  if capacity > 1 then info = call('HGET', CORE, '@' .. soon) or '' end
  return {3, again, queued, last, ahead, soon, next, info}
end
