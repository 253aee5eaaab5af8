-- Endings that are not plain releases are remembered for the retention after they
-- were, or will be at the latest.
local function remember(id, cause, at)
  call('ZREMRANGEBYSCORE', LINE, -now, '(0')
  if cause == 'w' then call('ZREM', LINE, 'e' .. id, 'b' .. id) end
  enter(-at - retention, cause .. id)
  begun = true -- the line may have been emptied just now
  ended = math.max(ended, at + retention)
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
