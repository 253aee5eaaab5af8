-- spare returns by how much the expiry of the keys exceeds REACH, so that it is set rarely: four
-- times the age of the state, which begins with the token birth, but at least a quarter of SPELL
-- and at most RETENTION less SPELL. So a name that is used once expires soon.
local function spare(birth)
  local age = birth > 0 and now - birth or 0
  return math.max(SPELL / 4, math.min(4 * age, RETENTION - SPELL))
end
