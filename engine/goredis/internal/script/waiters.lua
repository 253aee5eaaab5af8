-- Waiters, and the mark, which drops them.
local WAITER = '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$' -- seen since weight ttl reserve mark reason

-- front returns the member that is first in the line, and its score.
local function front()
  local first = call('ZRANGEBYSCORE', LINE, 1, '(' .. EPOCH, 'WITHSCORES', 'LIMIT', 0, 1)
  return first[1], tonumber(first[2])
end

-- dropWaiter removes a waiter, and returns whether it existed.
local function dropWaiter(id)
  if queued == 0 or call('ZREM', LINE, 'q' .. id) == 0 then return false end
  call('HDEL', CORE, '@' .. id)
  queued, changed = queued - 1, true
  return true
end

-- drop removes a holder or waiter by its ID. It returns whether it existed, and whether it was a
-- lease that was breaking.
local function drop(id)
  if dropLease(id) or dropWaiter(id) then return true, false end
  local broken = dropLease(BREAKING .. id)
  return broken, broken
end

-- dismiss drops the waiters of a marked resource and sends each of them a message: as many as the
-- portion allows. Later scripts drop the others.
local function dismiss()
  if queued == 0 then return end
  local most = math.floor(math.max(0, portion) / MESSAGE_COST)
  for _, member in ipairs(call('ZRANGEBYSCORE', LINE, 1, '(' .. EPOCH, 'LIMIT', 0, most)) do
    local id = string.sub(member, 2)
    dropWaiter(id)
    portion = portion - MESSAGE_COST
    wakes[#wakes + 1] = {id, string.format('m %.0f %s', marked - now, id)}
  end
  if queued > 0 then more = true end
end

-- mark marks the resource as done for a time; a mark that lasts longer stays.
local function mark(span)
  if span <= 0 then return end
  marked, changed = math.max(marked, now + span), true
  call('HSET', CORE, 'marked', string.format('%.0f', marked))
  keep(marked)
  dismiss()
end

--#include waiters.dead

--#section dead
-- dropDead checks up to most waiters behind a place and drops those that have not polled since. It
-- returns how many it checked, how many it dropped, and the place of the last one, 0 at the end.
local function dropDead(after, most, since)
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

-- sweep checks a few waiters, in turn, and if one of them is dead, as many as the portion allows.
-- For a poll it does nothing within SWEEP_PAUSE of the last sweep.
local function sweep(polled)
  if queued == 0 or portion <= 0 then return end
  local from, at = string.match(swept, '^(%S+) (%d+)$')
  if polled and now >= at + 0 and now < at + SWEEP_PAUSE then return end
  local looked, dead, last = dropDead(from, FEW_LOOKS, now - SWEEP_LIFE)
  if dead > 0 then
    looked, dead, last = dropDead(last, portion, now - SWEEP_LIFE)
  end
  local again = 2 * dead >= portion -- most of them were dead, so there may be others
  portion = portion - looked
  if again then more = true end
  call('HSET', CORE, 'swept', last .. string.format(' %.0f', again and 0 or now))
end
