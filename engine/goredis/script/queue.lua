local WAITER_LIFE, CLAIM_WINDOW = 3000000, 3000000
local WAITER = '^(%d+) (%d+) (%d+) (%d+) (%d+) (.*)$' -- weight ttl reserve seen since reason

-- drop removes an ID, be it holder or waiter, and tells whether it was there.
local function drop(id)
  if capacity == 1 then
    if used == 1 and holder == id then
      used, deadline, changed = 0, 0, true
      return true
    end
  elseif used > 0 and call('ZREM', LINE, 'h' .. id) == 1 then
    local weight = string.match(call('HGET', CORE, '@' .. id) or '', '^%d+') or 1
    call('HDEL', CORE, '@' .. id)
    used, changed = math.max(0, used - weight), true
    return true
  end
  if queued > 0 and call('ZREM', LINE, 'q' .. id) == 1 then
    call('HDEL', CORE, '@' .. id)
    queued, changed = queued - 1, true
    return true
  end
  return false
end

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
    local id = string.sub(member, 2)
    drop(id)
    remember(id, 'e')
  end
end

-- advance grants from the front as long as the front fits. If it does not,
-- nobody behind it is tried: a heavy request is not starved by light ones.
local function advance(caller)
  while queued > 0 do
    local id = string.sub(call('ZRANGEBYSCORE', LINE, 1, '(' .. EPOCH, 'LIMIT', 0, 1)[1], 2)
    local weight, ttl, reserve, seen, _, reason = string.match(call('HGET', CORE, '@' .. id) or '', WAITER)
    if not weight or seen + WAITER_LIFE <= now then
      drop(id)
    elseif used + weight > capacity then
      return
    else
      drop(id)
      ttl = tonumber(ttl)
      if id ~= caller then ttl = math.min(ttl, CLAIM_WINDOW) end
      local token = hold(id, tonumber(weight), ttl, tonumber(reserve), 0, reason)
      if id ~= caller then grants[#grants + 1] = {id, string.format('g %.0f %.0f %s', token, ttl, id)} end
    end
  end
end
