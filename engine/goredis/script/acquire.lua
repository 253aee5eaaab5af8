-- Asks for a lease, or asks again about one: the holder ID decides.
-- KEYS  core, holders, queue, info, endings of the resource
-- ARGV  1 holder ID, 2 kind:capacity, 3 TTL, 4 TTL + retention, 5 reserve,
--       6 note: "reserve 0 reason", 7 'q' to queue or ''; and unless all are
--       default: 8 weight, 9 ballot or 0, 10 holder ID that yields or ''
-- Returns  the token (granted for the whole TTL), or a table:
--       {1, token, TTL} granted   {2, position, next} queued
--       {3, next, waiters, last[, holder ID, TTL, info]} busy   {4, floor, next} outbid
--       {5, cause} ended   {6} mismatch   {7} too heavy   {8} ballot too far
local call = redis.call
--#include clock
-- The short way: free, nobody waits, no endings, clock ahead, expiry far enough.
local core = call('HMGET', KEYS[1], 'deadline', 'token', 'keep')
if core[1] == ARGV[2] and not ARGV[8] and core[2] + 0 < now and core[3] + 0 >= now + ARGV[4] then
  call('HSET', KEYS[1], 'holder', ARGV[1], 'deadline', now + ARGV[3], 'token', now + ARGV[5], 'note', ARGV[6])
  return now
end
local id, ttl, reserve, ballot = ARGV[1], ARGV[3] + 0, ARGV[5] + 0, tonumber(ARGV[9] or 0)
local weight, retention, reason = tonumber(ARGV[8] or 1), ARGV[4] - ttl, string.match(ARGV[6], '^%d+ %d+ (.*)$')
--#include state
--#include endings
--#include leases
--#include queue
--#include notify
--#include finish
--#include join
reap()
if ARGV[10] and ARGV[10] ~= '' then drop(ARGV[10]) end
local cause = ending(id)
if cause then
  advance()
  return finish({5, cause})
end
if held(id) then
  extend(id, ttl)
  advance()
else
  seen(id)
  advance(id)
end
if held(id) then return finish({1, granted(id), held(id) - now}) end
local first, next = soonest()
local rank = queued > 0 and call('ZRANK', QUEUE, id)
if rank then return finish({2, rank, next - now}) end
return finish(admit(first, next - now))
