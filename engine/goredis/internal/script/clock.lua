-- The store's clock: now, in microseconds since 1970. Scripts use no other time. Tests replace
-- this fragment to make time virtual.
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
