-- dropLease removes a lease by its name, and tells whether it was there.
local function dropLease(name)
  if capacity == 1 then
    if used == 0 or holder ~= name then return false end
    used, deadline, changed = 0, 0, true
    return true
  end
  if used == 0 or call('ZREM', LINE, 'h' .. name) == 0 then return false end
  local weight, token = string.match(call('HGET', CORE, '@' .. name) or '', '^(%d+) (%d+) ')
  call('HDEL', CORE, '@' .. name)
  if token and ordered() then call('ZREM', LINE, place(token, name)) end
  used, changed = math.max(0, used - (weight or 1)), true
  return true
end

-- dropWaiter removes a waiter, and tells whether it was there.
local function dropWaiter(id)
  if queued == 0 or call('ZREM', LINE, 'q' .. id) == 0 then return false end
  call('HDEL', CORE, '@' .. id)
  queued, changed = queued - 1, true
  return true
end

-- drop removes an ID, be it holder or waiter, and tells whether it was there, and
-- whether as a lease that was breaking.
local function drop(id)
  if dropLease(id) or dropWaiter(id) then return true, false end
  local broken = dropLease(BREAKING .. id)
  return broken, broken
end

-- dismiss sends away those who wait for a resource that is marked.
local function dismiss()
  if queued == 0 then return end
  local most = math.floor(math.max(0, portion) / MESSAGE_COST)
  for _, member in ipairs(call('ZRANGEBYSCORE', LINE, 1, '(' .. EPOCH, 'LIMIT', 0, most)) do
    local id = string.sub(member, 2)
    dropWaiter(id)
    portion = portion - MESSAGE_COST
    wakes[#wakes + 1] = {id, string.format('m %.0f %s', marked - now, id)}
  end
  if queued > 0 then more = true end
end

-- mark marks the resource as done for a time; a mark that lasts longer stays.
-- Nobody is served while it lasts, so those who wait are sent away: as many as the
-- portion allows, the others by the scripts that follow.
local function mark(span)
  if span <= 0 then return end
  marked, changed = math.max(marked, now + span), true
  call('HSET', CORE, 'marked', string.format('%.0f', marked))
  keep(marked)
  dismiss()
end
