local BALLOT_AHEAD = 86400000000

-- seen notes that a waiter has asked again, and tells whether it is one.
local function seen(id)
  local info = queued > 0 and call('ZSCORE', LINE, 'q' .. id) and call('HGET', CORE, '@' .. id)
  if not info then return false end
  call('HSET', CORE, '@' .. id, string.format('%016.0f', now) .. string.sub(info, 17))
  local _, _, _, wants = string.match(info, WAITER)
  keep(now + wants)
  return true
end

-- admit decides about an ID that neither holds nor waits. Nobody passes the front of
-- the queue: a newcomer is granted only if no one waits before it.
local function admit(soon, next)
  local limit = tonumber(string.match(sort, ':(%d+)$'))
  if marked > 0 then -- it was seen to end; were the clock set back, it would meet waiters
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
  if first() and used + weight <= capacity then
    -- A state forgotten since may have given any token up to the retention ago.
    local floor = math.max(last, now - retention)
    if ballot == 0 or ballot > floor and ballot <= now + BALLOT_AHEAD then
      dropWaiter(waiter)
      local token = hold(id, weight, ttl, reserve, ballot, reason)
      mark(span)
      return {1, token, ttl, latest()}
    end
    keep(now) -- the kind may be new
    return ballot <= floor and {4, math.max(last, now), next} or {8}
  end
  if queues and ballot == 0 then
    join()
    return {2, queued - 1, next, last}
  end
  local ahead = 0
  if queues then
    local rank = call('ZRANK', LINE, 'q' .. waiter)
    if not rank then
      join()
      rank = call('ZRANK', LINE, 'q' .. waiter)
    end
    ahead = rank - call('ZCOUNT', LINE, '-inf', '(1')
  end
  local again = ahead > 0 and askIn(next) or next
  if not soon then return {3, again, queued, last, ahead} end
  local info = note
  if capacity > 1 then info = call('HGET', CORE, '@' .. soon) or '' end
  return {3, again, queued, last, ahead, soon, next, info}
end
