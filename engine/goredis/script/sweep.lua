local FEW_LOOKS, SWEEP_LIFE, SWEEP_PAUSE = 8, 3 * WAITER_LIFE, 100000

-- clear looks at so many waiters behind a place and drops those that have not asked
-- since. It returns how many it looked at, how many were dead, and the place of the
-- last, 0 if it reached the end.
local function clear(after, most, since)
  local members = call('ZRANGEBYSCORE', LINE, after + 0 < 1 and 1 or '(' .. after, '(' .. EPOCH, 'LIMIT', 0, most)
  local looked, dead, fields, gone = #members, {}, {}, {}
  if looked == 0 then return 0, 0, '0' end
  for i = 1, looked do fields[i] = '@' .. string.sub(members[i], 2) end
  local past, infos = string.format('%016.0f', since), call('HMGET', CORE, unpack(fields))
  for i = 1, looked do
    if not infos[i] or string.sub(infos[i], 1, 16) <= past then
      dead[#dead + 1], gone[#gone + 1] = members[i], fields[i]
    end
  end
  local last = looked == most and call('ZSCORE', LINE, members[looked]) or '0'
  if #dead > 0 then
    call('ZREM', LINE, unpack(dead))
    call('HDEL', CORE, unpack(gone))
    queued, changed = queued - #dead, true
  end
  return looked, #dead, last
end

-- sweep looks at a few waiters in turn, and if there is a dead one among them at as
-- many as the portion allows. Those who ask again leave it be if it was just done.
local function sweep(asked)
  if queued == 0 or portion <= 0 then return end
  local from, at = string.match(swept, '^(%S+) (%d+)$')
  if asked and now >= at + 0 and now < at + SWEEP_PAUSE then return end
  local _, dead, last = clear(from, FEW_LOOKS, now - SWEEP_LIFE)
  if dead > 0 then
    _, dead, last = clear(last, portion, now - SWEEP_LIFE)
  end
  local again = 2 * dead >= portion -- most of them were dead, and there may be others
  if again then more = true end
  call('HSET', CORE, 'swept', last .. string.format(' %.0f', again and 0 or now))
end
