-- Endings that are not plain releases: a letter for the cause and the ID, by
-- the instant until which they are remembered.
local function remember(id, cause)
  call('ZREMRANGEBYSCORE', ENDINGS, '-inf', now)
  if cause == 'w' then call('ZREM', ENDINGS, 'e' .. id, 'b' .. id) end
  ended = math.max(ended, now + retention)
  call('ZADD', ENDINGS, now + retention, cause .. id)
  fresh[ENDINGS], changed = true, true
  keep(now)
end

local function ending(id)
  if ended == 0 then return nil end
  local found = call('ZMSCORE', ENDINGS, 'e' .. id, 'b' .. id, 'w' .. id)
  for i, cause in ipairs({EXPIRED, BROKEN, RELEASED}) do
    if found[i] and tonumber(found[i]) > now then return cause end
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
