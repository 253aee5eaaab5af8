-- channel returns the channel of the client of a holder ID.
local function channel(id)
  local find, sub = string.find, string.sub
  local brace, dot = find(KEYS[1], '{', 1, true), find(id, '.', 1, true) -- no prefix has a brace
  return sub(KEYS[1], 1, brace - 2) .. ':wake:' .. sub(id, 1, (dot or 0) - 1)
end
