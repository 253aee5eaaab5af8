-- A member of every line of a capacity above 1, between endings and waiters. It
-- is too long for the compact form of a sorted set, in which Redis would search
-- leases one by one, and keeps the line from being made anew for each lease.
local ANCHOR = '-----------------------------------------------------------------'
