-- The store's clock: now, in microseconds since 1970. It is the only time that
-- the scripts know. Tests replace this file to make time virtual.
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
