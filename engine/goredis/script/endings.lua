-- forgetSome drops some of the endings that are over.
local function forgetSome()
  local over = call('ZREVRANGEBYSCORE', LINE, '(0', -now, 'LIMIT', 0, FEW_FORGOTTEN)
  if #over > 0 then call('ZREM', LINE, unpack(over)) end
end

-- Endings that are not plain releases are remembered for the retention after they
-- were, or will be at the latest.
local function remember(id, cause, at)
  forgetSome()
  if cause == 'w' then call('ZREM', LINE, 'e' .. id, 'b' .. id) end
  enter(-at - retention, cause .. id)
  begun = true -- the line may have been emptied just now
  ended = math.max(ended, at + retention)
  keep(at)
end

-- rememberAll remembers the endings of many at once, given as members of the line.
local function rememberAll(members, at)
  if #members == 0 then return end
  forgetSome()
  local scored, score = {}, string.format('-%.0f', at + retention)
  for i, member in ipairs(members) do
    scored[2 * i - 1], scored[2 * i] = score, member
  end
  call('ZADD', LINE, unpack(scored))
  begun, changed, ended = true, true, math.max(ended, at + retention)
  keep(at)
end

local function ending(id)
  if ended == 0 then return nil end
  local found = call('ZMSCORE', LINE, 'e' .. id, 'b' .. id, 'w' .. id)
  for i, cause in ipairs({EXPIRED, BROKEN, RELEASED}) do
    if found[i] and tonumber(found[i]) < -now then return cause end
  end
end

-- why tells what became of a lease that is not held. Tokens that this state
-- gave and that have no ending were released.
local function why(id, token)
  local cause = ending(id)
  if cause == EXPIRED and used > 0 and used >= capacity then return TAKEN end
  if cause then return cause end
  if token == 0 or token < birth or token > last then return DELETED end
  return RELEASED
end
