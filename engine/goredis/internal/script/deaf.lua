-- deaf returns whether no message can reach the client of a holder ID. If that is not known, as
-- without the right to call PUBSUB, it returns false.
local function deaf(id)
  local brace, dot = string.find(KEYS[1], '{', 1, true), string.find(id, '.', 1, true) -- as notify
  local channel = string.sub(KEYS[1], 1, brace - 2) .. ':wake:' .. string.sub(id, 1, (dot or 0) - 1)
  return redis.pcall('PUBSUB', 'NUMSUB', channel)[2] == 0
end

-- gone returns whether the client of a waiter has stopped listening since its last request. It
-- listened then if the weight in its info begins with a 0.
local function gone(id, info) return string.byte(info, 35) == 48 and deaf(id) end
