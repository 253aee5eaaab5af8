-- Leases. One that is breaking has the name BREAKING and its ID, so no request finds it by its ID,
-- which has a tombstone already.
--#include order

-- held returns the deadline of a lease, or nil.
local function held(id)
  if capacity == 1 then return used == 1 and holder == id and deadline or nil end
  local score = used > 0 and call('ZSCORE', LINE, 'h' .. id)
  return score and tonumber(score) or nil
end

-- granted returns the token of a lease that is held.
local function granted(id)
  if capacity == 1 then return last - string.match(note, '^%d+') end
  return tonumber(string.match(call('HGET', CORE, '@' .. id) or '', '^%d+ (%d+)') or 0)
end

-- extend moves a deadline, never back.
local function extend(id, ttl)
  local before, after = held(id), now + ttl
  if after <= before then return end
  if capacity == 1 then deadline = after else call('ZADD', LINE, after, 'h' .. id) end
  changed = true
  keep(after)
end

-- hold makes a lease. Tokens come from here and from three fast paths: those of acquire.lua and
-- acquire_shared.lua, and front.lua.
local function hold(id, weight, ttl, reserve, ballot, reason)
  local token = math.max(last + 1, now)
  if ballot > 0 then token = ballot end
  if birth == 0 then birth = token end
  last = token + reserve
  if capacity == 1 then
    holder, deadline, changed = id, now + ttl, true
    note = string.format('%.0f %.0f ', reserve, token == now and 0 or now) .. reason
  else
    enter(now + ttl, 'h' .. id)
    if ordered() then call('ZADD', LINE, ORDER, place(token, id)) end
    call('HSET', CORE, '@' .. id, string.format('%.0f %.0f %.0f ', weight, token, now) .. reason)
  end
  if called then call('HDEL', CORE, 'called') end
  used, called = used + weight, nil
  keep(math.max(now + ttl, last))
  return token
end

-- soonest returns the holder whose lease ends first, or nil, and when it ends.
local function soonest()
  if used == 0 then return nil, now end
  if capacity == 1 then return holder, deadline end
  local first = call('ZRANGEBYSCORE', LINE, EPOCH, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return string.sub(first[1], 2), tonumber(first[2])
end

--#include leases.over

--#section over
-- dropLease removes a lease by its name, and returns whether it existed.
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

-- reap ends leases whose deadline has passed.
local function reap()
  if used == 0 then return end
  if capacity == 1 then
    if deadline > now then return end
    local name = holder
    dropLease(name)
    if string.byte(name) ~= 33 then bury(name, 'e', now) end -- BREAKING: it has a tombstone already
    portion = portion - 1
    return
  end
  local dead = call('ZRANGEBYSCORE', LINE, EPOCH, now, 'LIMIT', 0, portion + 1)
  if #dead > portion then more, dead[#dead] = true, nil end
  if #dead == 0 then return end
  local names, fields, over, orders, freed = {}, {}, {}, {}, 0
  for i, member in ipairs(dead) do
    names[i] = string.sub(member, 2)
    fields[i] = '@' .. names[i]
  end
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
  buryAll(over, now)
end

-- expire ends the lease of one ID whose deadline has passed, if reap has not reached it.
local function expire(id)
  if not more then return end
  for _, name in ipairs({id, BREAKING .. id}) do
    local till = held(name)
    if till and till <= now then
      dropLease(name)
      if name == id then bury(id, 'e', now) end
    end
  end
end
