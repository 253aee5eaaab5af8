-- spare is what the keys of a resource are made to last beyond the reach, so that their
-- expiry is set rarely: four times the age of its state, which begins with the token birth,
-- and nearly a retention at most. So a name that is used once is soon forgotten. Needs
-- now, retention and spell.
local function spare(birth)
  local age = birth > 0 and now - birth or 0
  return math.max(spell / 4, math.min(4 * age, retention - spell))
end
