-- Acquires a lease of a capacity above 1, as acquire does for a capacity of 1.
-- KEYS  core and line of the resource
-- ARGV  1 holder ID, 2 kind:capacity, 3 TTL, 4 reserve, 5 reason, 6 weight,
--       7 capacity, and unless all are default: 8 as acquire's 6,
--       9 ballot or 0, 10 holder ID that yields or '', 11 how long to mark from
--       the grant on
-- Returns  as acquire does
--#include constants
local call = redis.call
--#include clock
-- Fast path: the resource is open (see state.lua), there is room, the clock is ahead of the last
-- token, the expiry is far enough, and the ID has no entry.
local field, till, weight = '@' .. ARGV[1], now + ARGV[3], ARGV[6] + 0
local core = call('HMGET', KEYS[1], 'deadline', 'token', 'keep', 'ended', 'kind', 'used', field)
if core[5] == ARGV[2] and core[1] + 0 > now and not core[7] and core[6] + weight <= ARGV[7] + 0
  and core[2] + 0 < now and core[3] + 0 >= till + RETENTION and not ARGV[9] and weight > 0 then
  local past = core[4] ~= '0' and call('ZMSCORE', KEYS[2], 'e' .. ARGV[1], 'b' .. ARGV[1], 'w' .. ARGV[1])
  if not past or not (past[1] or past[2] or past[3]) then
    local digits = string.format
    local added = call('ZADD', KEYS[2], '0', ANCHOR, digits('%d', till), 'h' .. ARGV[1])
    if added == 1 or core[6] == '0' then
      if added ~= 1 then call('PEXPIREAT', KEYS[2], math.ceil(core[3] / 1000)) end
      if till < core[1] + 0 then call('HSET', KEYS[1], 'deadline', digits('%d', till)) end
      call('HSET', KEYS[1], 'token', digits('%d', now + ARGV[4]), 'used', digits('%d', core[6] + weight),
        field, digits('%d %d 0 ', weight, now) .. ARGV[5])
      return now
    end
    if added == 2 then call('DEL', KEYS[2]) end -- the line was deleted, and its leases with it
  end
end
-- The slow path is a function, so that the fast one does not pay for its locals.
return (function()
local id, sort, ttl, reserve, reason, queues = ARGV[1], ARGV[2], ARGV[3] + 0, ARGV[4] + 0, ARGV[5], ARGV[8]
local ballot, yields, span = tonumber(ARGV[9] or 0), ARGV[10], tonumber(ARGV[11] or 0)
--#include acquire.slow
end)()
