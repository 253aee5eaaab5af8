-- How much one script clears up, so that it takes Redis no more than 3 ms: a lease
-- that is reaped and a waiter that is looked at take 1 of it, what has to be told 4.
local PORTION, FEW_FORGOTTEN, MESSAGE_COST = 128, 100, 4
