-- The holders of a condition have a second entry in the line, so that a signal finds the oldest
-- one at once. All of these have the score ORDER and are sorted by name, which begins with the
-- token. The fast paths ignore them, so a resource of this kind is never open.
local function ordered() return string.sub(kind, 1, 5) == 'cond:' end
local function place(token, id) return string.format('o%016.0f', token + 0) .. id end
