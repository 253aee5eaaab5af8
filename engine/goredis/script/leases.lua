-- held returns the deadline of a lease, or nil.
local function held(id)
  if capacity == 1 then return used == 1 and holder == id and deadline or nil end
  local score = used > 0 and call('ZSCORE', HOLDERS, id)
  return score and tonumber(score) or nil
end

-- granted returns the token of a lease that is held.
local function granted(id)
  if capacity == 1 then return last - string.match(note, '^%d+') end
  return tonumber(string.match(call('HGET', INFO, id) or '', '^%d+ (%d+)') or 0)
end

-- extend moves a deadline, never back.
local function extend(id, ttl)
  local before, after = held(id), now + ttl
  if after <= before then return end
  if capacity == 1 then deadline = after else call('ZADD', HOLDERS, after, id) end
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
    holder, deadline = id, now + ttl
    note = string.format('%.0f %.0f %s', reserve, token == now and 0 or now, reason)
  else
    if used == 0 then fresh[HOLDERS] = true end
    if used == 0 and queued == 0 then fresh[INFO] = true end
    call('ZADD', HOLDERS, now + ttl, id)
    call('HSET', INFO, id, string.format('%.0f %.0f %.0f %s', weight, token, now, reason))
  end
  used, changed = used + weight, true
  keep(math.max(now + ttl, last))
  return token
end

-- soonest returns the holder whose lease ends first and its deadline.
local function soonest()
  if used == 0 then return nil, now end
  if capacity == 1 then return holder, deadline end
  local first = call('ZRANGE', HOLDERS, 0, 0, 'WITHSCORES')
  return first[1], tonumber(first[2] or now)
end
