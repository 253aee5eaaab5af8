--#include channel
--#include deaf
-- gone returns whether the client of a waiter has stopped listening since its last request. It
-- listened then if the weight in its info begins with a 0.
local function gone(id, info) return string.byte(info, 35) == 48 and deaf(id) end
