-- notify publishes a wake-up to the client of a holder ID. If that is denied or fails, what was
-- stored stays; the next poll of the waiter finds it. Needs channel.
local function notify(id, message) redis.pcall('PUBLISH', channel(id), message) end
