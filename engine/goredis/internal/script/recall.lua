-- A lease whose ID ends in RECALL is recalled: its holder gets a message when the line becomes
-- non-empty, and when a request that does not wait is refused. One that was granted in this step has
-- waited, so it knows that others want the resource.
local function recall()
  if capacity == 1 and used == 1 and #wakes == 0 and string.byte(holder, -1) == RECALL and string.byte(holder) ~= 33 then -- BREAKING
    wakes[#wakes + 1] = {holder, 'w ' .. holder}
  end
end

--#section fast
if string.byte(held[1], -1) == RECALL and string.byte(held[1]) ~= 33 then notify(held[1], 'w ' .. held[1]) end -- see recall.lua
