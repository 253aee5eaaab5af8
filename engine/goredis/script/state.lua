-- Loads the core of a resource. Needs call, now and retention. A lease of
-- capacity 1 lives in the core; others in HOLDERS and INFO.
local EXPIRED, TAKEN, DELETED, BROKEN, RELEASED = 1, 2, 3, 4, 5
local CORE, HOLDERS, QUEUE, INFO, ENDINGS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local raw = call('HMGET', CORE, 'kind', 'token', 'birth', 'used', 'queued', 'ended', 'keep',
  'holder', 'deadline', 'note')
local kind, last, birth = raw[1] or '', tonumber(raw[2] or 0), tonumber(raw[3] or 0)
local capacity = tonumber(string.match(kind, ':(%d+)$') or 0)
local used, queued, ended = tonumber(raw[4] or 0), tonumber(raw[5] or 0), tonumber(raw[6] or 0)
local kept = tonumber(raw[7] or 0)
local holder, deadline, note = raw[8] or '', tonumber(raw[9]) or 0, raw[10] or ''
local changed, raised, fresh, grants = false, false, {}, {}

if capacity == 1 then used = deadline > 0 and 1 or 0 end
if ended <= now then ended = 0 end -- all endings are old

-- Keys may be deleted by hand or evicted. Without the core nothing counts;
-- without its info a lease or a wait is lost, as after FLUSHALL.
if not raw[7] then
  call('DEL', HOLDERS, QUEUE, INFO, ENDINGS)
elseif queued > 0 or (capacity > 1 and used > 0) then
  if call('EXISTS', INFO) == 0 then call('DEL', HOLDERS, QUEUE) end
  local waiting = call('ZCARD', QUEUE)
  if waiting ~= queued then queued, changed = waiting, true end
  if capacity > 1 and used > 0 and call('EXISTS', HOLDERS) == 0 then used, changed = 0, true end
end

-- keep makes sure that the state outlives an instant by the retention. It adds
-- one retention more, so that the expiry of a busy resource is set rarely.
local function keep(instant)
  if kept < instant + retention then kept, raised, changed = instant + 2 * retention, true, true end
end
