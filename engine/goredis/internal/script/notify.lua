-- notify publishes a wake-up to the client of a holder ID. If that is denied or fails, what was
-- stored stays; the next poll of the waiter finds it. It returns how many received it. Needs channel.
local function notify(id, message) return redis.pcall('PUBLISH', channel(id), message) end
