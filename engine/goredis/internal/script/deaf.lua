-- deaf returns whether no message can reach the client of a holder ID. If that is not known, as
-- without the right to call PUBSUB, it returns false. Needs channel.
local function deaf(id) return redis.pcall('PUBSUB', 'NUMSUB', channel(id))[2] == 0 end
