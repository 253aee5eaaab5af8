--#include order

-- A lease that is breaking bears the name BREAKING and its ID, so nothing that asks
-- for the ID finds it; the ID has an ending already.
local BREAKING = '!'

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

-- hold makes a lease. Every token comes from here and from the short way in
-- acquire.lua.
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

-- soonest returns the holder whose lease ends first, if there is one, and when.
local function soonest()
  if used == 0 then return nil, now end
  if capacity == 1 then return holder, deadline end
  local first = call('ZRANGEBYSCORE', LINE, EPOCH, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return string.sub(first[1], 2), tonumber(first[2])
end
