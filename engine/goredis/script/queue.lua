local WAITER = '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$' -- seen since weight ttl reserve mark reason
--#include reap
--#include sweep

-- front returns the member that is first in the line, and its score.
local function front()
  local first = call('ZRANGEBYSCORE', LINE, 1, '(' .. EPOCH, 'WITHSCORES', 'LIMIT', 0, 1)
  return first[1], tonumber(first[2])
end

-- advance grants from the front as long as the front fits. If it does not,
-- nobody behind it is tried: a heavy request is not starved by light ones. While
-- there is a mark, it sends away those who wait.
local function advance(caller)
  if marked > now then return dismiss() end
  while queued > 0 and used < capacity do
    if portion <= 0 then
      more = true
      return
    end
    local member, score = front()
    local id = string.sub(member, 2)
    local seen, _, weight, ttl, reserve, span, reason = string.match(call('HGET', CORE, '@' .. id) or '', WAITER)
    if not weight or seen + WAITER_LIFE <= now then
      portion = portion - clear(0, portion, now - WAITER_LIFE)
    elseif used + weight > capacity then
      return
    elseif score >= TURNS then
      -- A turn is called: once since the last grant, since it may be that of a dead process.
      if id ~= caller and id ~= called then
        portion, called = portion - MESSAGE_COST, id
        call('HSET', CORE, 'called', id)
        wakes[#wakes + 1] = {id, 'c ' .. id}
      end
      return
    else
      portion = portion - MESSAGE_COST
      dropWaiter(id)
      ttl = tonumber(ttl)
      if id ~= caller then ttl = math.min(ttl, CLAIM_WINDOW) end
      local token = hold(id, tonumber(weight), ttl, tonumber(reserve), 0, reason)
      if id ~= caller then wakes[#wakes + 1] = {id, string.format('g %.0f %.0f %s', token, ttl, id)} end
      if span ~= '0' then return mark(tonumber(span)) end -- nobody is served any more
    end
  end
end
