-- the long way // want
local ok
