-- Grants what is free to the front of the line. The rule has two forms: the fast path for a lease
-- of capacity 1 that its holder releases, and the slow path for everything else.

--#section fast
-- grantFront grants the lease to the front of the line, and sends it the message. Needs call, now and
-- notify. Its arguments are the core's token, keep, ended and easy, the number of waiters that remain,
-- and further fields to store. It returns the end of the lease and the last token; or nil if the slow
-- path is needed: the front is dead, gone or marks, or the keys are inconsistent. Then nothing has changed.
--
-- A front that listened and that the message does not reach is gone; see gone.lua. A client receives the
-- message after the script has ended, so it may go before the grant is stored: the lines above it have
-- written, and Redis refuses no later write of a script.
local function grantFront(last, keep, ended, easy, waiting, ...)
  local first -- and its score; without tombstones it is the first of all, which is quicker to find
  if not ended or ended == '0' then
    first = call('ZPOPMIN', KEYS[2])
  else
    first = call('ZRANGEBYSCORE', KEYS[2], 1, '(' .. EPOCH, 'WITHSCORES', 'LIMIT', 0, 1)
    if first[1] then call('ZREM', KEYS[2], first[1]) end
  end
  if not first[1] then return end
  local front, digits = string.sub(first[1], 2), string.format
  local info = call('HGET', KEYS[1], '@' .. front) or ''
  local ttl, reserve, reason = string.match(info, '^0?1 (%d+) (%d+) 0 (.*)$', 35)
  if ttl and string.byte(first[1]) == 113 and string.sub(info, 1, 16) + WAITER_LIFE > now then -- 'q', not an old tombstone
    ttl = math.min(ttl + 0, CLAIM_WINDOW)
    local token = math.max(last + 1, now)
    local top, till = token + reserve, now + ttl
    if keep >= math.max(top, till) + REACH and
      (notify(front, digits('g %d %d %s', token, ttl, front)) ~= 0 or string.byte(info, 35) ~= 48) then
      call('HDEL', KEYS[1], '@' .. front)
      call('HSET', KEYS[1], 'deadline', digits('%d', till), 'token', digits('%d', top), 'holder', front,
        'easy', waiting == 0 and string.sub(easy, 2) or easy, 'queued', digits('%d', waiting),
        'note', reserve .. digits(' %d ', token == now and 0 or now) .. reason, ...)
      return till, top
    end
  end
  call('ZADD', KEYS[2], first[2], first[1]) -- if it was alone, the slow path does not leave it in the line
end

--#section slow
-- reachable returns the ID and info of the first live waiter behind a front that is gone which is not
-- gone itself; nil if there is none. It looks at as many waiters as the portion allows, and at no turn.
local function reachable(caller)
  local behind = call('ZRANGEBYSCORE', LINE, 1, '(' .. TURNS, 'LIMIT', 1, math.max(0, portion))
  for _, member in ipairs(behind) do
    local id = string.sub(member, 2)
    local info = call('HGET', CORE, '@' .. id) or ''
    portion = portion - 1
    local seen = string.match(info, WAITER)
    if seen and seen + WAITER_LIFE > now and (id == caller or not gone(id, info)) then return id, info end
  end
end

-- advance grants from the front as long as the front fits. If it does not, no waiter behind it is
-- tried, so light requests do not starve a heavy one. While there is a mark, it drops the waiters.
-- caller is the ID of this script's caller: it gets the reply, and so no message.
local function advance(caller)
  if marked > now then return dismiss() end
  while queued > 0 and used < capacity do
    if portion <= 0 then
      more = true
      return
    end
    local member, score = front()
    local id = string.sub(member, 2)
    local info = call('HGET', CORE, '@' .. id) or ''
    local seen, _, weight, ttl, reserve, span, reason = string.match(info, WAITER)
    if not weight or seen + WAITER_LIFE <= now then
      portion = portion - dropDead(0, portion, now - WAITER_LIFE)
    elseif used + weight > capacity then
      return
    elseif score >= TURNS then
      -- A turn is called, not granted, and only once after a grant: its process may be dead.
      if id ~= caller and id ~= called then
        portion, called = portion - MESSAGE_COST, id
        call('HSET', CORE, 'called', id)
        wakes[#wakes + 1] = {id, 'c ' .. id}
      end
      return
    else
      if id ~= caller and gone(id, info) then
        local other, its = reachable(caller)
        if other then
          id = other
          _, _, weight, ttl, reserve, span, reason = string.match(its, WAITER)
        end
      end
      portion = portion - MESSAGE_COST
      dropWaiter(id)
      ttl = tonumber(ttl)
      if id ~= caller then ttl = math.min(ttl, CLAIM_WINDOW) end
      local token = hold(id, tonumber(weight), ttl, tonumber(reserve), 0, reason)
      if id ~= caller then wakes[#wakes + 1] = {id, string.format('g %.0f %.0f %s', token, ttl, id)} end
      if span ~= '0' then return mark(tonumber(span)) end -- no other waiter is granted
    end
  end
end
