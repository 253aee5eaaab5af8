-- The holders of a condition are in the line a second time, in the order of their
-- tokens, so that a signal finds the oldest at once: all with the score ORDER, so by
-- their names, which begin with the token. Such a resource is never open, so the
-- short ways, which know nothing of the order, are closed.
local ORDER = 0.5
local function ordered() return string.sub(kind, 1, 5) == 'cond:' end
local function place(token, id) return string.format('o%016.0f', token + 0) .. id end
