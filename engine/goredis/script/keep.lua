-- keep makes the state outlive an instant by the reach at least.
--#include spare
local function keep(instant)
  if kept < instant + reach then kept, raised, changed = instant + reach + spare(birth), true, true end
end
