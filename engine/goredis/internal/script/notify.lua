-- notify publishes a wake-up to the client of a holder ID. If that is denied or fails, what was
-- stored stays; the next poll of the waiter finds it.
local function notify(id, message)
  local find, sub = string.find, string.sub
  local brace, dot = find(KEYS[1], '{', 1, true), find(id, '.', 1, true) -- no prefix has a brace
  redis.pcall('PUBLISH', sub(KEYS[1], 1, brace - 2) .. ':wake:' .. sub(id, 1, (dot or 0) - 1), message)
end
