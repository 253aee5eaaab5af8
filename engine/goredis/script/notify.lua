-- Tells the client of a holder ID. A wake-up that is denied or fails must not
-- undo what was stored: the waiter's next poll finds out.
local function notify(id, message)
  local find, sub = string.find, string.sub
  local brace, dot = find(KEYS[1], '{', 1, true), find(id, '.', 1, true) -- no prefix has a brace
  redis.pcall('PUBLISH', sub(KEYS[1], 1, brace - 2) .. ':wake:' .. sub(id, 1, (dot or 0) - 1), message)
end
