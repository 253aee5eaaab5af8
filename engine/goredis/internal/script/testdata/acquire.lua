-- Acquires a lease of capacity 1, or polls for it: the same holder ID is the same attempt.
-- KEYS  core and line of the resource
-- ARGV  1 holder ID, 2 kind:capacity, 3 TTL, 4 reserve, 5 note "reserve 0 reason", and unless all are default:
--       6 'q' to queue (default), 'l' too, and look whether its client listens, '', or the turn of a ballot (admit.lua), 7 weight or '' for 1, 8 ballot or 0,
--       9 holder ID that yields or '', 10 how long to mark from the grant on, or left out
-- Returns  the token (granted for the whole TTL), or a table:
--       {1, token, TTL[, highest place of a turn]} granted   {2, position, next, last} queued
--       {3, next, waiters, last, ahead of its turn[, holder, TTL, info]} busy, by a holder as in snapshot   {4, what to be above, next} outbid
--       {5, cause[, reason of a break]} ended   {6} mismatch   {7} too heavy   {8} ballot too far   {9, left} marked as done
local RETENTION = 600000000 -- the keys outlive what they hold by this
local SPELL = 37500000 -- a renewal looks at the expiry once in this time
local REACH = 637500000 -- so the scripts set the expiry to this at least
local WAITER_LIFE = 3000000 -- a waiter that has not polled for this long is dead
local CLAIM_WINDOW = 3000000 -- the longest TTL of a grant that is pushed to a waiter
local BALLOT_AHEAD = 86400000000 -- how far a ballot may be ahead of the clock
local EXPIRED = 1 -- causes, as in package engine
local TAKEN = 2
local DELETED = 3
local BROKEN = 4
local RELEASED = 5
local EPOCH = 1000000000000 -- scores of leases, which are instants, are above
local TURNS = 400000000000 -- scores of turns are from here to EPOCH
local TURN_STEP = 16384 -- a turn's score is TURNS and its place divided by this, which is exact
local ORDER = 0.5 -- score of the second entries of a condition's holders
local BREAKING = '!' -- goes before the ID of a lease that is breaking
local RECALL = 126 -- the last byte of the ID of a lease that can be recalled: '~'
local PORTION = 64 -- how much one script clears, so that it takes about 1 ms: 1 for a lease or a waiter
local SLOW_COST = 4 -- what a call on the slow path takes of the portion of a batch
local MESSAGE_COST = 4 -- what a message takes of the portion
local FEW_FORGOTTEN = 64 -- how many old tombstones one script drops: as many as it can add
local FEW_LOOKS = 8 -- how many waiters a sweep looks at first
local SWEEP_LIFE = 9000000 -- a sweep drops waiters that have not polled for this long
local SWEEP_PAUSE = 100000 -- the least time between two sweeps by polls
local ANCHOR = '-----------------------------------------------------------------' -- keeps the line of a shared resource alive, and as a table
local call = redis.call
-- The store's clock: now, in microseconds since 1970. Scripts use no other time. Tests replace
-- this fragment to make time virtual.
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
-- Fast paths, if the expiry is far enough and the ID has no tombstone.
local core, till = call('HMGET', KEYS[1], 'deadline', 'token', 'keep', 'ended'), now + ARGV[3]
local plain = not ARGV[7] or ARGV[7] == '1' and ARGV[9] == '' and not ARGV[10]
local free, held = core[1] == ARGV[2] and plain, nil
if not free and not ARGV[10] and (tonumber(core[1] or 0) or 0) > now then
  held = call('HMGET', KEYS[1], 'holder', 'easy', 'queued', 'tail')
  local alone = held[2] == ARGV[2] -- nobody waits, no mark, the same kind
  local yields = ARGV[9] and ARGV[9] == held[1] and (ARGV[6] == 'q' or alone and ARGV[6] == 'l') and ARGV[7] == '1' and ARGV[8] == '0'
  if not alone and held[2] ~= '+' .. ARGV[2] or held[1] == ARGV[1] or ARGV[6] and not yields then
    held = nil
  elseif yields and alone then -- treated as free
    free = true
  end
end
if (free or held) and core[3] + 0 >= till + REACH then
  local past = core[4] and core[4] ~= '0' and call('ZMSCORE', KEYS[2], 'e' .. ARGV[1], 'b' .. ARGV[1], 'w' .. ARGV[1])
  if past and (past[1] or past[2] or past[3]) then
    free, held = nil, nil
  elseif free then -- grant it, if the last token is not past the lease
    local digits, last, note = string.format, core[2] + 0, ARGV[5]
    local token = last < now and now or last + 1
    if plain and ARGV[8] and ARGV[8] ~= '0' then -- a ballot that the slow path would accept
      token = ARGV[8] + 0
      if token <= now - RETENTION or token > now + BALLOT_AHEAD then token = last end
    end
    if token ~= now then note = string.gsub(note, ' 0 ', digits(' %d ', now), 1) end
    local top = token + ARGV[4]
    if top <= till and token > last then
      -- '%d' is much faster than HSET's own formatting of a number
      call('HSET', KEYS[1], 'deadline', digits('%d', till), 'token', digits('%d', top),
        'holder', ARGV[1], 'note', note)
      return token
    end
    held = nil
  else
-- The fast path to the end of the line, for a lease that is held and a client that listens; if ARGV[9]
-- yields that lease, the front of the line is granted in the same step. The slow path handles an ID that waits already, and
-- inconsistent keys. Functions that few requests need are made where they are needed.
-- channel returns the channel of the client of a holder ID.
local function channel(id)
  local find, sub = string.find, string.sub
  local brace, dot = find(KEYS[1], '{', 1, true), find(id, '.', 1, true) -- no prefix has a brace
  return sub(KEYS[1], 1, brace - 2) .. ':wake:' .. sub(id, 1, (dot or 0) - 1)
end
local queued, next, digits = (held[3] or 0) + 0, core[1] - now, string.format
local place = digits('%d', (held[4] or 0) + 1)
if call('ZADD', KEYS[2], 'NX', place, 'q' .. ARGV[1]) == 1 then
  local seen = digits('%016d ', now)
  local info = seen .. seen .. '01 ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' 0 ' .. string.sub(ARGV[5], #ARGV[4] + 4) -- its note's reason
  if ARGV[9] then
-- notify publishes a wake-up to the client of a holder ID. If that is denied or fails, what was
-- stored stays; the next poll of the waiter finds it. It returns how many received it. Needs channel.
local function notify(id, message) return redis.pcall('PUBLISH', channel(id), message) end
-- grantFront grants the lease to the front of the line, and sends it the message. Needs call, now and
-- notify. Its arguments are the core's token, keep, ended and easy, the number of waiters that remain,
-- and further fields to store. It returns the end of the lease and the last token; or nil if the slow
-- path is needed: the front is dead, gone or marks, or the keys are inconsistent. Then nothing has changed.
--
-- A front that listened and that the message does not reach is gone; see gone.lua. A client receives the
-- message after the script has ended, so it may go before the grant is stored: the lines above it have
-- written, and Redis refuses no later write of a script.
local function grantFront(last, keep, ended, easy, waiting, ...)
  local first -- and its score; without tombstones it is the first of all, which is quicker to find
  if not ended or ended == '0' then
    first = call('ZPOPMIN', KEYS[2])
  else
    first = call('ZRANGEBYSCORE', KEYS[2], 1, '(' .. EPOCH, 'WITHSCORES', 'LIMIT', 0, 1)
    if first[1] then call('ZREM', KEYS[2], first[1]) end
  end
  if not first[1] then return end
  local front, digits = string.sub(first[1], 2), string.format
  local info = call('HGET', KEYS[1], '@' .. front) or ''
  local ttl, reserve, reason = string.match(info, '^0?1 (%d+) (%d+) 0 (.*)$', 35)
  if ttl and string.byte(first[1]) == 113 and string.sub(info, 1, 16) + WAITER_LIFE > now then -- 'q', not an old tombstone
    ttl = math.min(ttl + 0, CLAIM_WINDOW)
    local token = math.max(last + 1, now)
    local top, till = token + reserve, now + ttl
    if keep >= math.max(top, till) + REACH and
      (notify(front, digits('g %d %d %s', token, ttl, front)) ~= 0 or string.byte(info, 35) ~= 48) then
      call('HDEL', KEYS[1], '@' .. front)
      call('HSET', KEYS[1], 'deadline', digits('%d', till), 'token', digits('%d', top), 'holder', front,
        'easy', waiting == 0 and string.sub(easy, 2) or easy, 'queued', digits('%d', waiting),
        'note', reserve .. digits(' %d ', token == now and 0 or now) .. reason, ...)
      return till, top
    end
  end
  call('ZADD', KEYS[2], first[2], first[1]) -- if it was alone, the slow path does not leave it in the line
end
    local ends, top = grantFront(core[2] + 0, core[3] + 0, core[4], held[2], queued, '@' .. ARGV[1], info, 'tail', place)
    if ends then return {2, queued - 1, ends - now, top} end
  elseif queued == 0 or call('ZCARD', KEYS[2]) > 1 then
    call('HSET', KEYS[1], 'queued', digits('%d', queued + 1), 'tail', place, '@' .. ARGV[1], info)
    if queued == 0 then
      call('HSET', KEYS[1], 'easy', '+' .. ARGV[2])
      call('PEXPIREAT', KEYS[2], digits('%d', math.ceil(core[3] / 1000)))
if string.byte(held[1], -1) == RECALL and string.byte(held[1]) ~= 33 then -- BREAKING
-- notify publishes a wake-up to the client of a holder ID. If that is denied or fails, what was
-- stored stays; the next poll of the waiter finds it. It returns how many received it. Needs channel.
local function notify(id, message) return redis.pcall('PUBLISH', channel(id), message) end
  notify(held[1], 'w ' .. held[1])
end
    end
    return {2, queued, next, core[2] + 0}
  end
  call('ZREM', KEYS[2], 'q' .. ARGV[1])
end
  end
end
-- The slow path is a function, so that the fast ones do not pay for its locals.
return (function()
local id, sort, ttl, reserve, queues = ARGV[1], ARGV[2], ARGV[3] + 0, ARGV[4] + 0, ARGV[6]
local weight, ballot, yields, span = tonumber(ARGV[7] or 1), tonumber(ARGV[8] or 0), ARGV[9], tonumber(ARGV[10] or 0)
local reason = string.match(ARGV[5], '^%d+ %d+ (.*)$')
-- The slow path, also of acquire_shared. Needs the locals id, sort, ttl, reserve, queues (see
-- admit.lua), weight, ballot, span, reason and yields.
-- The slow path of every script, as functions: it loads the whole state, and finish stores it.
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

-- forget drops tombstones, given as members of the line, and the reasons of breaks among them.
local function forget(old)
  if #old == 0 then return end
  local reasons = {}
  for _, member in ipairs(old) do
    if string.byte(member) == 98 then reasons[#reasons + 1] = '!' .. string.sub(member, 2) end -- 'b'
  end
  call('ZREM', LINE, unpack(old))
  if #reasons > 0 then call('HDEL', CORE, unpack(reasons)) end
end
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

-- spare returns by how much the expiry of the keys exceeds REACH, so that it is set rarely: four
-- times the age of the state, which begins with the token birth, but at least a quarter of SPELL
-- and at most RETENTION less SPELL. So a name that is used once expires soon.
local function spare(birth)
  local age = birth > 0 and now - birth or 0
  return math.max(SPELL / 4, math.min(4 * age, RETENTION - SPELL))
end
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
-- A tombstone remembers that an ID expired (e), was broken (b) or was withdrawn (w), until
-- RETENTION after the lease ended or will end at the latest. A plain release leaves none.

-- dropOld drops some of the old tombstones.
local function dropOld()
  forget(call('ZREVRANGEBYSCORE', LINE, '(0', -now, 'LIMIT', 0, FEW_FORGOTTEN))
end

local function bury(id, cause, at)
  dropOld()
  if cause == 'w' then forget({'e' .. id, 'b' .. id}) end
  enter(-at - RETENTION, cause .. id)
  begun = true -- the line may have been emptied just now
  ended = math.max(ended, at + RETENTION)
  keep(at)
end

-- buryAll is bury for many IDs, given as members of the line.
local function buryAll(members, at)
  if #members == 0 then return end
  dropOld()
  local scored, score = {}, string.format('-%.0f', at + RETENTION)
  for i, member in ipairs(members) do
    scored[2 * i - 1], scored[2 * i] = score, member
  end
  call('ZADD', LINE, unpack(scored))
  begun, changed, ended = true, true, math.max(ended, at + RETENTION)
  keep(at)
end

-- tombstone returns the cause in the tombstone of an ID, or nil.
local function tombstone(id)
  if ended == 0 then return nil end
  local found = call('ZMSCORE', LINE, 'e' .. id, 'b' .. id, 'w' .. id)
  for i, cause in ipairs({EXPIRED, BROKEN, RELEASED}) do
    if found[i] and tonumber(found[i]) < -now then return cause end
  end
end

-- reasoned returns the reason of a break of an ID, if there is one, or other.
local function reasoned(id, cause, other)
  return cause == BROKEN and call('HGET', CORE, '!' .. id) or other
end

-- why returns why a lease is not held. If this state gave the token and the ID has no tombstone,
-- the lease was released.
local function why(id, token)
  local cause = tombstone(id)
  if cause == EXPIRED and used > 0 and used >= capacity then return TAKEN end
  if cause then return cause end
  if token == 0 or token < birth or token > last then return DELETED end
  return RELEASED
end

-- refusal is the reply that a lease is not held: -cause, or the reason of a break.
local function refusal(id, token)
  local cause = why(id, token)
  return reasoned(id, cause, -cause)
end
-- Leases. One that is breaking has the name BREAKING and its ID, so no request finds it by its ID,
-- which has a tombstone already.
-- The holders of a condition have a second entry in the line, so that a signal finds the oldest
-- one at once. All of these have the score ORDER and are sorted by name, which begins with the
-- token. The fast paths ignore them, so a resource of this kind is never open.
local function ordered() return string.sub(kind, 1, 5) == 'cond:' end
local function place(token, id) return string.format('o%016.0f', token + 0) .. id end

-- held returns the deadline of a lease, or nil.
local function held(id)
  if capacity == 1 then return used == 1 and holder == id and deadline or nil end
  local score = used > 0 and call('ZSCORE', LINE, 'h' .. id)
  return score and tonumber(score) or nil
end

-- granted returns the token of a lease that is held.
local function granted(id)
  if capacity == 1 then return last - string.match(note, '^%d+') end
  return tonumber(string.match(call('HGET', CORE, '@' .. id) or '', '^%d+ (%d+)') or 0)
end

-- extend moves a deadline, never back.
local function extend(id, ttl)
  local before, after = held(id), now + ttl
  if after <= before then return end
  if capacity == 1 then deadline = after else call('ZADD', LINE, after, 'h' .. id) end
  changed = true
  keep(after)
end

-- hold makes a lease. Tokens come from here and from three fast paths: those of acquire.lua and
-- acquire_shared.lua, and front.lua.
local function hold(id, weight, ttl, reserve, ballot, reason)
  local token = math.max(last + 1, now)
  if ballot > 0 then token = ballot end
  if birth == 0 then birth = token end
  last = token + reserve
  if capacity == 1 then
    holder, deadline, changed = id, now + ttl, true
    note = string.format('%.0f %.0f ', reserve, token == now and 0 or now) .. reason
  else
    enter(now + ttl, 'h' .. id)
    if ordered() then call('ZADD', LINE, ORDER, place(token, id)) end
    call('HSET', CORE, '@' .. id, string.format('%.0f %.0f %.0f ', weight, token, now) .. reason)
  end
  if called then call('HDEL', CORE, 'called') end
  used, called = used + weight, nil
  keep(math.max(now + ttl, last))
  return token
end

-- soonest returns the holder whose lease ends first, or nil, and when it ends.
local function soonest()
  if used == 0 then return nil, now end
  if capacity == 1 then return holder, deadline end
  local first = call('ZRANGEBYSCORE', LINE, EPOCH, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return string.sub(first[1], 2), tonumber(first[2])
end

-- dropLease removes a lease by its name, and returns whether it existed.
local function dropLease(name)
  if capacity == 1 then
    if used == 0 or holder ~= name then return false end
    used, deadline, changed = 0, 0, true
    return true
  end
  if used == 0 or call('ZREM', LINE, 'h' .. name) == 0 then return false end
  local weight, token = string.match(call('HGET', CORE, '@' .. name) or '', '^(%d+) (%d+) ')
  call('HDEL', CORE, '@' .. name)
  if token and ordered() then call('ZREM', LINE, place(token, name)) end
  used, changed = math.max(0, used - (weight or 1)), true
  return true
end

-- reap ends leases whose deadline has passed.
local function reap()
  if used == 0 then return end
  if capacity == 1 then
    if deadline > now then return end
    local name = holder
    dropLease(name)
    if string.byte(name) ~= 33 then bury(name, 'e', now) end -- BREAKING: it has a tombstone already
    portion = portion - 1
    return
  end
  local dead = call('ZRANGEBYSCORE', LINE, EPOCH, now, 'LIMIT', 0, portion + 1)
  if #dead > portion then more, dead[#dead] = true, nil end
  if #dead == 0 then return end
  local names, fields, over, orders, freed = {}, {}, {}, {}, 0
  for i, member in ipairs(dead) do
    names[i] = string.sub(member, 2)
    fields[i] = '@' .. names[i]
  end
  for i, info in ipairs(call('HMGET', CORE, unpack(fields))) do
    local weight, token = string.match(info or '', '^(%d+) (%d+) ')
    freed = freed + (weight or 1)
    if token and ordered() then orders[#orders + 1] = place(token, names[i]) end
    if string.byte(names[i]) ~= 33 then over[#over + 1] = 'e' .. names[i] end
  end
  call('ZREM', LINE, unpack(dead))
  if #orders > 0 then call('ZREM', LINE, unpack(orders)) end
  call('HDEL', CORE, unpack(fields))
  used, changed, portion = math.max(0, used - freed), true, portion - #dead
  buryAll(over, now)
end

-- expire ends the lease of one ID whose deadline has passed, if reap has not reached it.
local function expire(id)
  if not more then return end
  for _, name in ipairs({id, BREAKING .. id}) do
    local till = held(name)
    if till and till <= now then
      dropLease(name)
      if name == id then bury(id, 'e', now) end
    end
  end
end
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
-- channel returns the channel of the client of a holder ID.
local function channel(id)
  local find, sub = string.find, string.sub
  local brace, dot = find(KEYS[1], '{', 1, true), find(id, '.', 1, true) -- no prefix has a brace
  return sub(KEYS[1], 1, brace - 2) .. ':wake:' .. sub(id, 1, (dot or 0) - 1)
end
-- deaf returns whether no message can reach the client of a holder ID. If that is not known, as
-- without the right to call PUBSUB, it returns false. Needs channel.
local function deaf(id) return redis.pcall('PUBSUB', 'NUMSUB', channel(id))[2] == 0 end
-- gone returns whether the client of a waiter has stopped listening since its last request. It
-- listened then if the weight in its info begins with a 0.
local function gone(id, info) return string.byte(info, 35) == 48 and deaf(id) end
-- reachable returns the ID and info of the first live waiter behind a front that is gone which is not
-- gone itself; nil if there is none. It looks at as many waiters as the portion allows, and at no turn.
local function reachable(caller)
  local behind = call('ZRANGEBYSCORE', LINE, 1, '(' .. TURNS, 'LIMIT', 1, math.max(0, portion))
  for _, member in ipairs(behind) do
    local id = string.sub(member, 2)
    local info = call('HGET', CORE, '@' .. id) or ''
    portion = portion - 1
    local seen = string.match(info, WAITER)
    if seen and seen + WAITER_LIFE > now and (id == caller or not gone(id, info)) then return id, info end
  end
end

-- advance grants from the front as long as the front fits. If it does not, no waiter behind it is
-- tried, so light requests do not starve a heavy one. While there is a mark, it drops the waiters.
-- caller is the ID of this script's caller: it gets the reply, and so no message.
local function advance(caller)
  if marked > now then return dismiss() end
  while queued > 0 and used < capacity do
    if portion <= 0 then
      more = true
      return
    end
    local member, score = front()
    local id = string.sub(member, 2)
    local info = call('HGET', CORE, '@' .. id) or ''
    local seen, _, weight, ttl, reserve, span, reason = string.match(info, WAITER)
    if not weight or seen + WAITER_LIFE <= now then
      portion = portion - dropDead(0, portion, now - WAITER_LIFE)
    elseif used + weight > capacity then
      return
    elseif score >= TURNS then
      -- A turn is called, not granted, and only once after a grant: its process may be dead.
      if id ~= caller and id ~= called then
        portion, called = portion - MESSAGE_COST, id
        call('HSET', CORE, 'called', id)
        wakes[#wakes + 1] = {id, 'c ' .. id}
      end
      return
    else
      if id ~= caller and gone(id, info) then
        local other, its = reachable(caller)
        if other then
          id = other
          _, _, weight, ttl, reserve, span, reason = string.match(its, WAITER)
        end
      end
      portion = portion - MESSAGE_COST
      dropWaiter(id)
      ttl = tonumber(ttl)
      if id ~= caller then ttl = math.min(ttl, CLAIM_WINDOW) end
      local token = hold(id, tonumber(weight), ttl, tonumber(reserve), 0, reason)
      if id ~= caller then wakes[#wakes + 1] = {id, string.format('g %.0f %.0f %s', token, ttl, id)} end
      if span ~= '0' then return mark(tonumber(span)) end -- no other waiter is granted
    end
  end
end
-- notify publishes a wake-up to the client of a holder ID. If that is denied or fails, what was
-- stored stays; the next poll of the waiter finds it. It returns how many received it. Needs channel.
local function notify(id, message) return redis.pcall('PUBLISH', channel(id), message) end
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
-- Handles a request that neither holds nor waits. A plain attempt waits under its own ID, in the
-- order of arrival. A ballot waits by its turn, behind all plain attempts, in the order of the
-- places that the proposers choose. queues is 'q' or nil to wait, and '' not to wait. For a ballot
-- it is its place, followed by a blank and the ID of its turn if it waits.
local waiter, turn = id, nil -- the ID that waits, and its score if it is a turn
if ballot == 0 then
  queues = queues ~= ''
else
  local at, name = string.match(queues or '', '^(%d+) ?(.*)$')
  if at then turn = TURNS + at / TURN_STEP end
  queues = turn and name ~= ''
  if queues then waiter = name end
end

-- isFirst returns whether no waiter is ahead of the request. Only a ballot with a place passes
-- waiters: turns whose places are not before its own.
local function isFirst()
  if queued == 0 then return true end
  if not turn then return false end
  local member, score = front()
  return score >= TURNS and (score >= turn or member == 'q' .. waiter)
end

-- listens returns whether to note that a message can reach a waiter; see gone.
local function listens(id) return capacity == 1 and not deaf(id) end

local function join()
  if turn then
    enter(string.format('%.17g', turn), 'q' .. waiter)
    if called == waiter then
      call('HDEL', CORE, 'called')
      called = nil
    end
  else
    tail = tail + 1
    enter(tail, 'q' .. waiter)
  end
  call('HSET', CORE, '@' .. waiter, string.format('%016.0f %016.0f ', now, now) ..
    (listens(waiter) and '0' or '') .. string.format('%.0f %.0f %.0f %.0f ', weight, ttl, reserve, span) .. reason)
  queued = queued + 1
  keep(now + ttl)
end

-- A lease whose ID ends in RECALL is recalled: its holder gets a message when a request for the whole
-- capacity is the first to wait, and with a capacity of 1 also when one that does not wait is refused.
-- A holder that was granted in this step has waited, so it knows that others want the resource. Of
-- many holders those whose leases end first are looked at: as many as the portion allows, and at least one.
local function recall()
  if used == 0 or #wakes > 0 or weight ~= capacity then return end
  local names = {'h' .. holder}
  if capacity > 1 then names = call('ZRANGEBYSCORE', LINE, EPOCH, '+inf', 'LIMIT', 0, math.max(1, portion)) end
  for _, name in ipairs(names) do
    portion = portion - 1
    if string.byte(name, -1) == RECALL and string.byte(name, 2) ~= 33 then -- BREAKING
      local id = string.sub(name, 2)
      wakes[#wakes + 1] = {id, 'w ' .. id}
    end
  end
end
-- polled records the poll of a waiter. It returns false if the ID does not wait.
local function polled(id)
  local info = queued > 0 and call('ZSCORE', LINE, 'q' .. id) and call('HGET', CORE, '@' .. id)
  if not info then return false end
  local rest = string.gsub(string.sub(info, 35), '^0', '', 1)
  call('HSET', CORE, '@' .. id, string.format('%016.0f', now) .. string.sub(info, 17, 34) .. (listens(id) and '0' or '') .. rest)
  local _, _, _, wants = string.match(info, WAITER)
  keep(now + wants)
  return true
end

-- pollIn returns how long a turn that is not the front should wait before it polls: until the
-- first deadline, or until the front counts as dead, if it could be granted and does not poll.
local function pollIn(next)
  local member, score = front()
  local seen, _, weight = string.match(call('HGET', CORE, '@' .. string.sub(member, 2)) or '', WAITER)
  if not weight or score < TURNS or used + weight > capacity then return next end
  local dies = math.max(0, seen + WAITER_LIFE - now)
  return next == 0 and dies or math.min(next, dies)
end

-- lastTurn returns the highest place of a turn in the line, or 0.
local function lastTurn()
  local last = queued > 0 and call('ZREVRANGEBYSCORE', LINE, '(' .. EPOCH, TURNS, 'WITHSCORES', 'LIMIT', 0, 1)
  return last and last[2] and (last[2] - TURNS) * TURN_STEP or 0
end
-- admit grants, queues or refuses the request. No request passes the front of the line: a new one
-- is granted only if no waiter is ahead of it.
local function admit(soon, next)
  local limit = tonumber(string.match(sort, ':(%d+)$'))
  if marked > 0 then -- it has ended; if the clock were set back, a marked resource would have waiters
    marked, changed = 0, true
    call('HDEL', CORE, 'marked')
  end
  if weight > limit then return {7} end
  if used == 0 and queued == 0 then
    if kind ~= sort then
      kind, capacity, changed = sort, limit, true
    end
  elseif kind ~= sort then
    return {6}
  end
  if isFirst() and used + weight <= capacity then
    -- A state that was forgotten may have given any token up to RETENTION ago.
    local floor = math.max(last, now - RETENTION)
    if ballot == 0 or ballot > floor and ballot <= now + BALLOT_AHEAD then
      dropWaiter(waiter)
      local token = hold(id, weight, ttl, reserve, ballot, reason)
      mark(span)
      return {1, token, ttl, lastTurn()}
    end
    keep(now) -- the kind may be new
    return ballot <= floor and {4, math.max(last, now), next} or {8}
  end
  if queues and ballot == 0 then
    join()
    if queued == 1 then recall() end
    return {2, queued - 1, next, last}
  end
  if ballot == 0 and capacity == 1 then recall() end
  local ahead = 0
  if queues then
    local rank = call('ZRANK', LINE, 'q' .. waiter)
    if not rank then
      join()
      rank = call('ZRANK', LINE, 'q' .. waiter)
    end
    ahead = rank - call('ZCOUNT', LINE, '-inf', '(1')
  end
  local again = ahead > 0 and pollIn(next) or next
  if not soon then return {3, again, queued, last, ahead} end
  local info = note
  if capacity > 1 then info = call('HGET', CORE, '@' .. soon) or '' end
  return {3, again, queued, last, ahead, soon, next, info}
end
reap()
expire(id)
if yields and yields ~= '' then drop(yields) end
local cause = tombstone(id)
if cause then
  advance()
  return finish({5, cause, reasoned(id, cause)})
end
if waiter ~= id and tombstone(waiter) then queues = false end -- its turn was withdrawn
if held(id) then
  extend(id, ttl)
  advance()
else
  -- The reply to a waiter that polls has the mark.
  local waited = marked > now and dropWaiter(waiter) or marked <= now and polled(waiter)
  advance(waiter)
  if waited then sweep(true) end
end
if held(id) then return finish({1, granted(id), held(id) - now}) end
if marked > now then return finish(kind == sort and {9, marked - now} or {6}) end
local soon, next = soonest()
next = math.max(0, next - now) -- the first may have expired, but not been reaped
local place = queued > 0 and call('ZSCORE', LINE, 'q' .. id)
if place then return finish({2, call('ZCOUNT', LINE, 1, '(' .. place), next, last}) end
local answer = admit(soon, next)
if answer[1] == 1 then advance() end -- for the turns that the grant passed, and those behind it
return finish(answer)
end)()
