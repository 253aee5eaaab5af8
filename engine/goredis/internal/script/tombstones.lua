-- A tombstone remembers that an ID expired (e), was broken (b) or was withdrawn (w), until
-- RETENTION after the lease ended or will end at the latest. A plain release leaves none.

-- dropOld drops some of the old tombstones.
local function dropOld()
  forget(call('ZREVRANGEBYSCORE', LINE, '(0', -now, 'LIMIT', 0, FEW_FORGOTTEN))
end

local function bury(id, cause, at)
  dropOld()
  if cause == 'w' then forget({'e' .. id, 'b' .. id}) end
  enter(-at - RETENTION, cause .. id)
  begun = true -- the line may have been emptied just now
  ended = math.max(ended, at + RETENTION)
  keep(at)
end

-- buryAll is bury for many IDs, given as members of the line.
local function buryAll(members, at)
  if #members == 0 then return end
  dropOld()
  local scored, score = {}, string.format('-%.0f', at + RETENTION)
  for i, member in ipairs(members) do
    scored[2 * i - 1], scored[2 * i] = score, member
  end
  call('ZADD', LINE, unpack(scored))
  begun, changed, ended = true, true, math.max(ended, at + RETENTION)
  keep(at)
end

-- tombstone returns the cause in the tombstone of an ID, or nil.
local function tombstone(id)
  if ended == 0 then return nil end
  local found = call('ZMSCORE', LINE, 'e' .. id, 'b' .. id, 'w' .. id)
  for i, cause in ipairs({EXPIRED, BROKEN, RELEASED}) do
    if found[i] and tonumber(found[i]) < -now then return cause end
  end
end

-- reasoned returns the reason of a break of an ID, if there is one, or other.
local function reasoned(id, cause, other)
  return cause == BROKEN and call('HGET', CORE, '!' .. id) or other
end

-- why returns why a lease is not held. If this state gave the token and the ID has no tombstone,
-- the lease was released.
local function why(id, token)
  local cause = tombstone(id)
  if cause == EXPIRED and used > 0 and used >= capacity then return TAKEN end
  if cause then return cause end
  if token == 0 or token < birth or token > last then return DELETED end
  return RELEASED
end

-- refusal is the reply that a lease is not held: -cause, or the reason of a break.
local function refusal(id, token)
  local cause = why(id, token)
  return reasoned(id, cause, -cause)
end
