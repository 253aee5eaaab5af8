-- Loads the core of a resource. Needs call, now, retention, spell and reach. The core is a
-- hash; a lease of capacity 1 lives in it. LINE is a sorted set of all other
-- parties, told apart by the range of their scores:
--   below 0     endings  e, b or w and the ID   minus the instant until which to remember
--   0           the anchor
--   0.5         the leases of a condition once more: see order.lua
--   from 1      waiters  q and the ID           their place, tail the last one given; from TURNS on see turn.lua
--   above EPOCH leases   h and the ID           their deadline
-- and the core's field @ID tells more of a waiter or lease there.
--#include anchor
--#include bounds
local EXPIRED, TAKEN, DELETED, BROKEN, RELEASED = 1, 2, 3, 4, 5
local CORE, LINE, EPOCH, TURNS = KEYS[1], KEYS[2], 1000000000000, 400000000000
local WAITER_LIFE, CLAIM_WINDOW = 3000000, 3000000
local raw = call('HMGET', CORE, 'kind', 'token', 'birth', 'used', 'queued', 'ended', 'keep',
  'holder', 'deadline', 'note', 'marked', 'tail', 'swept', 'called')
local kind, last, birth = raw[1] or '', tonumber(raw[2] or 0), tonumber(raw[3] or 0)
local capacity = tonumber(string.match(kind, ':(%d+)$') or 0)
local used, queued, ended = tonumber(raw[4] or 0), tonumber(raw[5] or 0), tonumber(raw[6] or 0)
local kept = tonumber(raw[7] or 0)
local holder, deadline, note = raw[8] or '', tonumber(raw[9] or 0) or 0, raw[10] or '' -- of a lease of capacity 1
local marked, tail, swept, called = tonumber(raw[11] or 0), tonumber(raw[12] or 0), raw[13] or '0 0', raw[14]
local changed, raised, begun, wakes = false, false, false, {}
local portion, more = PORTION, false -- what is left to clear up; whether others have to go on

if capacity == 1 then used = deadline > 0 and 1 or 0 end
if ended > 0 and ended <= now then -- all endings are old; the short ways see them otherwise
  local old = call('ZCOUNT', LINE, '-inf', '(0')
  if old > 0 then call('ZREMRANGEBYRANK', LINE, 0, math.min(old, FEW_FORGOTTEN) - 1) end
  if old <= FEW_FORGOTTEN then ended = 0 end
  changed = true
end

-- Keys may be deleted by hand or evicted. Without the core nothing counts;
-- without the line its leases and waits are lost, as after FLUSHALL.
if not raw[7] then
  if type(redis.pcall('UNLINK', LINE)) == 'table' then call('DEL', LINE) end -- not allowed
elseif queued > 0 or (capacity > 1 and used > 0) then
  local waiting = call('ZCOUNT', LINE, 1, '(' .. EPOCH)
  if waiting ~= queued then queued, changed = waiting, true end
  if capacity > 1 and used > 0 and call('ZCOUNT', LINE, EPOCH, '+inf') == 0 then used, changed = 0, true end
end

--#include keep

-- enter puts a party into the line.
local function enter(score, member)
  if queued == 0 and ended == 0 and (capacity == 1 or used == 0) then begun = true end
  if capacity > 1 then
    call('ZADD', LINE, 0, ANCHOR, score, member)
  else
    call('ZADD', LINE, score, member)
  end
  changed = true
end
