-- Asks for a lease of capacity 1, or asks again about one: the holder ID decides.
-- KEYS  core and line of the resource
-- ARGV  1 holder ID, 2 kind:capacity, 3 TTL, 4 reserve, 5 note "reserve 0 reason",
--       and unless all are default: 6 'q' to queue (default), '', or the turn of a ballot (turn.lua), 7 weight or
--       '' for 1, 8 ballot or 0, 9 holder ID that yields or '',
--       10 how long to mark from the grant on, or left out
-- Returns  the token (granted for the whole TTL), or a table:
--       {1, token, TTL[, highest place of a turn]} granted   {2, position, next, last} queued
--       {3, next, waiters, last, ahead of its turn[, holder, TTL, info]} busy, by a holder as in snapshot   {4, what to be above, next} outbid
--       {5, cause} ended   {6} mismatch   {7} too heavy   {8} ballot too far   {9, left} marked as done
local call = redis.call
--#include clock
-- The short ways need expiry far enough, and no ending of this ID.
local core, till = call('HMGET', KEYS[1], 'deadline', 'token', 'keep', 'ended'), now + ARGV[3]
local plain = not ARGV[7] or ARGV[7] == '1' and ARGV[9] == '' and not ARGV[10]
local free, held = core[1] == ARGV[2] and plain, nil
if not free and not ARGV[10] and (tonumber(core[1] or 0) or 0) > now then
  held = call('HMGET', KEYS[1], 'holder', 'easy', 'queued', 'tail')
  local yields = ARGV[9] and ARGV[9] == held[1] and ARGV[6] == 'q' and ARGV[7] == '1' and ARGV[8] == '0'
  local alone = held[2] == ARGV[2]
  if not alone and held[2] ~= '+' .. ARGV[2] or held[1] == ARGV[1] or ARGV[6] and not yields then
    held = nil
  elseif yields and alone then -- as good as free
    free = true
  end
end
if (free or held) and core[3] + 0 >= till + reach then
  local past = core[4] and core[4] ~= '0' and call('ZMSCORE', KEYS[2], 'e' .. ARGV[1], 'b' .. ARGV[1], 'w' .. ARGV[1])
  if past and (past[1] or past[2] or past[3]) then
    free, held = nil, nil
  elseif free then -- easy: grant it, if the last token is not past the lease
    local digits, last, note = string.format, core[2] + 0, ARGV[5]
    local token = last < now and now or last + 1
    if plain and ARGV[8] and ARGV[8] ~= '0' then -- a ballot, and one that the long way would take
      token = ARGV[8] + 0
      if token <= now - retention or token > now + 86400000000 then token = last end
    end
    if token ~= now then note = string.gsub(note, ' 0 ', digits(' %d ', now), 1) end
    local top = token + ARGV[4]
    if top <= till and token > last then
      -- '%d' is much faster than what HSET does with a number
      call('HSET', KEYS[1], 'deadline', digits('%d', till), 'token', digits('%d', top),
        'holder', ARGV[1], 'note', note)
      return token
    end
    held = nil
  else
    --#include wait
  end
end
-- The long way is a function, so that the short one does not pay for its locals.
return (function()
local id, sort, ttl, reserve, queues = ARGV[1], ARGV[2], ARGV[3] + 0, ARGV[4] + 0, ARGV[6]
local weight, ballot, yields, span = tonumber(ARGV[7] or 1), tonumber(ARGV[8] or 0), ARGV[9], tonumber(ARGV[10] or 0)
local reason = string.match(ARGV[5], '^%d+ %d+ (.*)$')
--#include notify
--#include grant
end)()
