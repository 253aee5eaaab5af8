-- The line of a request: plain attempts wait by their own ID, in the order in which
-- they came. A ballot waits by its turn, which is behind all of these, in the order of
-- places that the proposer chooses. queues is 'q' or nil to wait, or '' not to; of a
-- ballot its place, and to wait a blank and the ID of its turn.
local TURN_STEP = 16384 -- exact, and the highest place is below EPOCH
local waiter, turn = id, nil -- who waits, and at which score if it is a turn
if ballot == 0 then
  queues = queues ~= ''
else
  local at, name = string.match(queues or '', '^(%d+) ?(.*)$')
  if at then turn = TURNS + at / TURN_STEP end
  queues = turn and name ~= ''
  if queues then waiter = name end
end

-- first tells whether nobody waits before the request. Only a ballot with a place
-- passes anybody: turns whose places are not before its own.
local function first()
  if queued == 0 then return true end
  if not turn then return false end
  local member, score = front()
  return score >= TURNS and (score >= turn or member == 'q' .. waiter)
end

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
  call('HSET', CORE, '@' .. waiter, string.format('%016.0f %016.0f %.0f %.0f %.0f %.0f ', now, now, weight, ttl, reserve, span) .. reason)
  queued = queued + 1
  keep(now + ttl)
end

-- askIn returns how long a turn that is not the front should wait before it asks again:
-- until the first deadline, or until the front is taken for dead, if it could be granted
-- and does not ask.
local function askIn(next)
  local member, score = front()
  local asked, _, weight = string.match(call('HGET', CORE, '@' .. string.sub(member, 2)) or '', WAITER)
  if not weight or score < TURNS or used + weight > capacity then return next end
  local dies = math.max(0, asked + WAITER_LIFE - now)
  return next == 0 and dies or math.min(next, dies)
end

-- latest returns the highest place in the line, or 0.
local function latest()
  local last = queued > 0 and call('ZREVRANGEBYSCORE', LINE, '(' .. EPOCH, TURNS, 'WITHSCORES', 'LIMIT', 0, 1)
  return last and last[2] and (last[2] - TURNS) * TURN_STEP or 0
end
