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

-- mark marks the resource as done for a time; a mark that lasts longer stays.
-- Nobody is served while it lasts, so those who wait are sent away.
local function mark(span)
  if span <= 0 then return end
  marked, changed = math.max(marked, now + span), true
  call('HSET', CORE, 'marked', string.format('%.0f', marked))
  keep(marked)
  if queued == 0 then return end
  for _, member in ipairs(call('ZRANGEBYSCORE', LINE, 1, '(' .. EPOCH)) do
    local id = string.sub(member, 2)
    drop(id)
    wakes[#wakes + 1] = {id, string.format('m %.0f %s', marked - now, id)}
  end
end
