-- Asks for a lease of capacity 1, or asks again about one: the holder ID decides.
-- KEYS  core and line of the resource
-- ARGV  1 holder ID, 2 kind:capacity, 3 TTL, 4 reserve, 5 note "reserve 0 reason",
--       and unless all are default: 6 'q' to queue (default) or '', 7 weight or
--       '' for 1, 8 ballot or 0, 9 holder ID that yields or '',
--       10 how long to mark from the grant on, or left out
-- Returns  the token (granted for the whole TTL), or a table:
--       {1, token, TTL} granted   {2, position, next} queued
--       {3, next, waiters, last[, holder ID, TTL, info]} busy   {4, floor, next} outbid
--       {5, cause} ended   {6} mismatch   {7} too heavy   {8} ballot too far   {9, left} marked as done
local call = redis.call
--#include clock
-- The short way: easy and free, expiry far enough, the last token not past the
-- lease, and no ending of this ID.
local core, till = call('HMGET', KEYS[1], 'deadline', 'token', 'keep', 'ended'), now + ARGV[3]
if core[1] == ARGV[2] and not ARGV[7] and core[3] + 0 >= till + retention then
  local past = core[4] ~= '0' and call('ZMSCORE', KEYS[2], 'e' .. ARGV[1], 'b' .. ARGV[1], 'w' .. ARGV[1])
  local digits, token, note = string.format, core[2] + 1, ARGV[5]
  if token < now then token = now else note = string.gsub(note, ' 0 ', digits(' %d ', now), 1) end
  local top = token + ARGV[4]
  if top <= till and not (past and (past[1] or past[2] or past[3])) then
    -- '%d' is much faster than what HSET does with a number
    call('HSET', KEYS[1], 'deadline', digits('%d', till), 'token', digits('%d', top),
      'holder', ARGV[1], 'note', note)
    return token
  end
end
-- The long way is a function, so that the short one does not pay for its locals.
return (function()
local id, sort, ttl, reserve, queues = ARGV[1], ARGV[2], ARGV[3] + 0, ARGV[4] + 0, ARGV[6] ~= ''
local weight, ballot, yields, span = tonumber(ARGV[7] or 1), tonumber(ARGV[8] or 0), ARGV[9], tonumber(ARGV[10] or 0)
local reason = string.match(ARGV[5], '^%d+ %d+ (.*)$')
--#include grant
end)()
