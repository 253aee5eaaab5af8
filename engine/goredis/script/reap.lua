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
