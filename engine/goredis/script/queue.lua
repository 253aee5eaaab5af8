local WAITER = '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$' -- seen since weight ttl reserve mark reason

-- reap ends every lease whose deadline has come.
local function reap()
  if used == 0 then return end
  local dead = {}
  if capacity > 1 then
    dead = call('ZRANGEBYSCORE', LINE, EPOCH, now)
  elseif deadline <= now then
    dead = {'h' .. holder}
  end
  for _, member in ipairs(dead) do
    local name = string.sub(member, 2)
    dropLease(name)
    if string.byte(name) ~= 33 then remember(name, 'e', now) end -- BREAKING: that ending is known already
  end
end

-- advance grants from the front as long as the front fits. If it does not,
-- nobody behind it is tried: a heavy request is not starved by light ones. While
-- the capacity is used up, nobody is looked at.
local function advance(caller)
  while queued > 0 and used < capacity do
    local id = string.sub(call('ZRANGEBYSCORE', LINE, 1, '(' .. EPOCH, 'LIMIT', 0, 1)[1], 2)
    local seen, _, weight, ttl, reserve, span, reason = string.match(call('HGET', CORE, '@' .. id) or '', WAITER)
    if not weight or seen + WAITER_LIFE <= now then
      dropWaiter(id)
    elseif used + weight > capacity then
      return
    else
      dropWaiter(id)
      ttl = tonumber(ttl)
      if id ~= caller then ttl = math.min(ttl, CLAIM_WINDOW) end
      local token = hold(id, tonumber(weight), ttl, tonumber(reserve), 0, reason)
      if id ~= caller then wakes[#wakes + 1] = {id, string.format('g %.0f %.0f %s', token, ttl, id)} end
      mark(tonumber(span)) -- nobody is left in the line then
    end
  end
end
