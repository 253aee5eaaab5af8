local WAITER = '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$' -- seen since weight ttl reserve mark reason
local MESSAGE_COST, FEW_LOOKS, SWEEP_LIFE, SWEEP_PAUSE = 4, 8, 3 * WAITER_LIFE, 100000

-- reap ends leases whose deadline has come.
local function reap()
  if used == 0 then return end
  if capacity == 1 then
    if deadline > now then return end
    local name = holder
    dropLease(name)
    if string.byte(name) ~= 33 then remember(name, 'e', now) end -- BREAKING: that ending is known already
    portion = portion - 1
    return
  end
  local dead = call('ZRANGEBYSCORE', LINE, EPOCH, now, 'LIMIT', 0, portion + 1)
  if #dead > portion then more, dead[#dead] = true, nil end
  if #dead == 0 then return end
  local names, fields = {}, {}
  for i, member in ipairs(dead) do
    names[i] = string.sub(member, 2)
    fields[i] = '@' .. names[i]
  end
  local freed, over, orders = 0, {}, {}
  for i, info in ipairs(call('HMGET', CORE, unpack(fields))) do
    local weight, token = string.match(info or '', '^(%d+) (%d+) ')
    freed = freed + (weight or 1)
    if token and ordered() then orders[#orders + 1] = place(token, names[i]) end
    if string.byte(names[i]) ~= 33 then over[#over + 1] = 'e' .. names[i] end
  end
  call('ZREM', LINE, unpack(dead))
  if #orders > 0 then call('ZREM', LINE, unpack(orders)) end
  call('HDEL', CORE, unpack(fields))
  used, changed, portion = math.max(0, used - freed), true, portion - #dead
  rememberAll(over, now)
end

-- expire ends the lease of one ID whose deadline has come and that reap left.
local function expire(id)
  if not more then return end
  for _, name in ipairs({id, BREAKING .. id}) do
    local till = held(name)
    if till and till <= now then
      dropLease(name)
      if name == id then remember(id, 'e', now) end
    end
  end
end

-- clear looks at so many waiters behind a place and drops those that have not asked
-- since. It returns how many it looked at, how many were dead, and the place of the
-- last, 0 if it reached the end.
local function clear(after, most, since)
  local members = call('ZRANGEBYSCORE', LINE, after + 0 < 1 and 1 or '(' .. after, '(' .. EPOCH, 'LIMIT', 0, most)
  local looked, dead, fields, gone = #members, {}, {}, {}
  if looked == 0 then return 0, 0, '0' end
  for i = 1, looked do fields[i] = '@' .. string.sub(members[i], 2) end
  local past, infos = string.format('%016.0f', since), call('HMGET', CORE, unpack(fields))
  for i = 1, looked do
    if not infos[i] or string.sub(infos[i], 1, 16) <= past then
      dead[#dead + 1], gone[#gone + 1] = members[i], fields[i]
    end
  end
  local last = looked == most and call('ZSCORE', LINE, members[looked]) or '0'
  if #dead > 0 then
    call('ZREM', LINE, unpack(dead))
    call('HDEL', CORE, unpack(gone))
    queued, changed = queued - #dead, true
  end
  return looked, #dead, last
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
    local id = string.sub(call('ZRANGEBYSCORE', LINE, 1, '(' .. EPOCH, 'LIMIT', 0, 1)[1], 2)
    local seen, _, weight, ttl, reserve, span, reason = string.match(call('HGET', CORE, '@' .. id) or '', WAITER)
    if not weight or seen + WAITER_LIFE <= now then
      portion = portion - clear(0, portion, now - WAITER_LIFE)
    elseif used + weight > capacity then
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

-- sweep looks at a few waiters in turn, and if there is a dead one among them at as
-- many as the portion allows. Those who ask again leave it be if it was just done.
local function sweep(asked)
  if queued == 0 or portion <= 0 then return end
  local from, at = string.match(swept, '^(%d+) (%d+)$')
  if asked and now >= at + 0 and now < at + SWEEP_PAUSE then return end
  local _, dead, last = clear(from, FEW_LOOKS, now - SWEEP_LIFE)
  if dead > 0 then
    _, dead, last = clear(last, portion, now - SWEEP_LIFE)
  end
  local again = 2 * dead >= portion -- most of them were dead, and there may be others
  if again then more = true end
  call('HSET', CORE, 'swept', last .. string.format(' %.0f', again and 0 or now))
end
