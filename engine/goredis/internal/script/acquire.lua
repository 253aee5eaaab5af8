-- Acquires a lease of capacity 1, or polls for it: the same holder ID is the same attempt.
-- KEYS  core and line of the resource
-- ARGV  1 holder ID, 2 kind:capacity, 3 TTL, 4 reserve, 5 note "reserve 0 reason", and unless all are default:
--       6 'q' to queue (default), 'l' too, and look whether its client listens, '', or the turn of a ballot (admit.lua), 7 weight or '' for 1, 8 ballot or 0,
--       9 holder ID that yields or '', 10 how long to mark from the grant on, or left out
-- Returns  the token (granted for the whole TTL), or a table:
--       {1, token, TTL[, highest place of a turn]} granted   {2, position, next, last} queued
--       {3, next, waiters, last, ahead of its turn[, holder, TTL, info]} busy, by a holder as in snapshot   {4, what to be above, next} outbid
--       {5, cause[, reason of a break]} ended   {6} mismatch   {7} too heavy   {8} ballot too far   {9, left} marked as done
--#include constants
local call = redis.call
--#include clock
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
    --#include acquire.queue
  end
end
-- The slow path is a function, so that the fast ones do not pay for its locals.
return (function()
local id, sort, ttl, reserve, queues = ARGV[1], ARGV[2], ARGV[3] + 0, ARGV[4] + 0, ARGV[6]
local weight, ballot, yields, span = tonumber(ARGV[7] or 1), tonumber(ARGV[8] or 0), ARGV[9], tonumber(ARGV[10] or 0)
local reason = string.match(ARGV[5], '^%d+ %d+ (.*)$')
--#include acquire.slow
end)()

--#section queue
-- The fast path to the end of the line, for a lease that is held and a client that listens; if ARGV[9]
-- yields that lease, the front of the line is granted in the same step. The slow path handles an ID that waits already, and
-- inconsistent keys. Functions that few requests need are made where they are needed.
--#include channel
local queued, next, digits = (held[3] or 0) + 0, core[1] - now, string.format
local place = digits('%d', (held[4] or 0) + 1)
if call('ZADD', KEYS[2], 'NX', place, 'q' .. ARGV[1]) == 1 then
  local seen = digits('%016d ', now)
  local info = seen .. seen .. '01 ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' 0 ' .. string.sub(ARGV[5], #ARGV[4] + 4) -- its note's reason
  if ARGV[9] then
    --#include notify
    --#include front.fast
    local ends, top = grantFront(core[2] + 0, core[3] + 0, core[4], held[2], queued, '@' .. ARGV[1], info, 'tail', place)
    if ends then return {2, queued - 1, ends - now, top} end
  elseif queued == 0 or call('ZCARD', KEYS[2]) > 1 then
    call('HSET', KEYS[1], 'queued', digits('%d', queued + 1), 'tail', place, '@' .. ARGV[1], info)
    if queued == 0 then
      call('HSET', KEYS[1], 'easy', '+' .. ARGV[2])
      call('PEXPIREAT', KEYS[2], digits('%d', math.ceil(core[3] / 1000)))
      --#include recall.fast
    end
    return {2, queued, next, core[2] + 0}
  end
  call('ZREM', KEYS[2], 'q' .. ARGV[1])
end

--#section slow
-- The slow path, also of acquire_shared. Needs the locals id, sort, ttl, reserve, queues (see
-- admit.lua), weight, ballot, span, reason and yields.
--#include law
--#include admit
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
