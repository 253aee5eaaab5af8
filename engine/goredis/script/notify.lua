-- Tells the client of a holder ID. A wake-up that is denied or fails must not
-- undo what was stored: the waiter's next poll finds out.
local function notify(id, message)
  local prefix = string.match(KEYS[1], '^(.*):{')
  redis.pcall('PUBLISH', prefix .. ':wake:' .. string.match(id, '^[^.]*'), message)
end
