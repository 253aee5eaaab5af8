-- A lease whose ID ends in RECALL is recalled: its holder gets a message when a request for the whole
-- capacity is the first to wait, and with a capacity of 1 also when one that does not wait is refused.
-- A holder that was granted in this step has waited, so it knows that others want the resource. Of
-- many holders those whose leases end first are looked at: as many as the portion allows, and at least one.
local function recall()
  if used == 0 or #wakes > 0 or weight ~= capacity then return end
  local names = {'h' .. holder}
  if capacity > 1 then names = call('ZRANGEBYSCORE', LINE, EPOCH, '+inf', 'LIMIT', 0, math.max(1, portion)) end
  for _, name in ipairs(names) do
    portion = portion - 1
    if string.byte(name, -1) == RECALL and string.byte(name, 2) ~= 33 then -- BREAKING
      local id = string.sub(name, 2)
      wakes[#wakes + 1] = {id, 'w ' .. id}
    end
  end
end

--#section fast
if string.byte(held[1], -1) == RECALL and string.byte(held[1]) ~= 33 then -- BREAKING
  --#include notify
  notify(held[1], 'w ' .. held[1])
end
