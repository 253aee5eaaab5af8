-- The state of a resource. Needs call and now. The core is a hash; a lease of capacity 1 is in it.
-- LINE is a sorted set of all other entries, distinguished by their scores:
--   below 0     tombstones  e, b or w and the ID   minus the instant at which they are forgotten
--   0           the anchor
--   ORDER       the leases of a condition once more: see order.lua
--   from 1      waiters     q and the ID           their place, tail is the last one given; from TURNS on see admit.lua
--   above EPOCH leases      h and the ID           their deadline
-- The core's field @ID describes a waiter, or a lease that is in the line. Its field !ID is the reason
-- of a break, and is there as long as the tombstone bID.
local CORE, LINE = KEYS[1], KEYS[2]
local raw = call('HMGET', CORE, 'kind', 'token', 'birth', 'used', 'queued', 'ended', 'keep',
  'holder', 'deadline', 'note', 'marked', 'tail', 'swept', 'called')
local kind, last, birth = raw[1] or '', tonumber(raw[2] or 0), tonumber(raw[3] or 0)
local capacity = tonumber(string.match(kind, ':(%d+)$') or 0)
local used, queued, ended = tonumber(raw[4] or 0), tonumber(raw[5] or 0), tonumber(raw[6] or 0)
local kept = tonumber(raw[7] or 0)
local holder, deadline, note = raw[8] or '', tonumber(raw[9] or 0) or 0, raw[10] or '' -- of a lease of capacity 1
local marked, tail, swept, called = tonumber(raw[11] or 0), tonumber(raw[12] or 0), raw[13] or '0 0', raw[14]
local changed, raised, begun, wakes = false, false, false, {}
local portion, more = PORTION, false -- what this script may still clear; whether there is more to clear

--#include forget
if capacity == 1 then used = deadline > 0 and 1 or 0 end
if ended > 0 and ended <= now then -- all tombstones are old; the fast paths would still look for them
  local old = call('ZCOUNT', LINE, '-inf', '(0')
  if old > 0 then forget(call('ZRANGE', LINE, 0, math.min(old, FEW_FORGOTTEN) - 1)) end
  if old <= FEW_FORGOTTEN then ended = 0 end
  changed = true
end

-- Keys may be deleted by hand or evicted. Without the core, the line is dropped. Without the line,
-- its leases and waits are lost, as after FLUSHALL.
if not raw[7] then
  if type(redis.pcall('UNLINK', LINE)) == 'table' then call('DEL', LINE) end -- UNLINK is not allowed
elseif queued > 0 or (capacity > 1 and used > 0) then
  local waiting = call('ZCOUNT', LINE, 1, '(' .. EPOCH)
  if waiting ~= queued then queued, changed = waiting, true end
  if capacity > 1 and used > 0 and call('ZCOUNT', LINE, EPOCH, '+inf') == 0 then used, changed = 0, true end
end

--#include expiry
-- keep makes the keys outlive an instant by REACH at least.
local function keep(instant)
  if kept < instant + REACH then kept, raised, changed = instant + REACH + spare(birth), true, true end
end

-- enter adds an entry to the line.
local function enter(score, member)
  if queued == 0 and ended == 0 and (capacity == 1 or used == 0) then begun = true end
  if capacity > 1 then
    call('ZADD', LINE, 0, ANCHOR, score, member)
  else
    call('ZADD', LINE, score, member)
  end
  changed = true
end

--#section store
-- The fast paths format instants with '%d', which is exact unless Redis was built for 32 bits.
local WIDE = string.format('%d', 1000000000000000) == '1000000000000000'

-- digits is much faster than HSET's own formatting of a number. It returns a text unchanged.
local function digits(n) return type(n) == 'number' and string.format(WIDE and '%d' or '%.0f', n) or n end

-- store writes the core, and with it what opens the fast paths. Without waiters and mark, easy of
-- a resource of capacity 1 is its kind: a release writes easy into the deadline, and an acquire
-- that finds its own kind there grants. With waiters easy is '+' and the kind: an acquire joins the
-- line, and a release grants the front. A resource of a higher capacity is open until its first
-- lease ends. The fields that the fast paths read are written first, since Redis searches small
-- hashes in order. The long note of a higher capacity makes Redis keep the hash as a table.
local function store()
  local easy, plain = '', queued == 0 and marked <= now and birth > 0 and WIDE
  if capacity > 1 then
    local first, ends = soonest()
    deadline = plain and not ordered() and (first and ends or kept) or 0
    easy, holder, note = 'shared', '', ANCHOR
  else
    if plain then
      easy = kind
    elseif queued > 0 and marked <= now and WIDE and call('ZCOUNT', LINE, TURNS, '(' .. EPOCH) == 0 then
      easy = '+' .. kind -- a turn is called, not granted, and only by the slow path
    end
    if used == 0 then deadline = plain and easy or 0 end
  end
  if not raw[7] and easy == kind and ended == 0 then -- a fresh core: the fields left out are 0
    call('HSET', CORE, 'deadline', digits(deadline), 'token', digits(last), 'keep', digits(kept),
      'holder', holder, 'easy', easy, 'note', note, 'kind', kind, 'birth', digits(birth))
    return
  end
  call('HSET', CORE, 'deadline', digits(deadline), 'token', digits(last), 'keep', digits(kept), 'ended', digits(ended),
    'holder', holder, 'easy', easy, 'note', note, 'queued', digits(queued), 'tail', digits(tail), 'kind', kind,
    'used', digits(used), 'birth', digits(birth))
end

-- finish stores what has changed, then publishes the wake-ups, so that a grant is stored before its
-- client receives it. If there is more to clear, the reply says so: see clear.go.
local function finish(answer)
  PORTION = portion - SLOW_COST -- what is left of it for the next call of a batch
  if changed then store() end
  local expiry = math.ceil(kept / 1000)
  if raised then call('PEXPIREAT', CORE, expiry) end
  if raised or begun then call('PEXPIREAT', LINE, expiry) end
  for _, wake in ipairs(wakes) do notify(wake[1], wake[2]) end
  if more then return {-1, answer} end
  return answer
end
