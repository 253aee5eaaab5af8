-- Runs many calls of acquire and release, each as it runs alone, until their portion is used up. Not
-- for a cluster, since the keys are in many slots.
-- KEYS  for each call: core and line of its resource
-- ARGV  for each call: how many arguments it has, below 0 for a release; and these
-- Returns  for each call that was made: its reply, or nil if it failed and has to be made alone
--#include constants
local call = redis.call
--#include clock
local acquire = function(KEYS, ARGV)
--#include acquire
end
local release = function(KEYS, ARGV)
--#include release
end
local replies, given, at = {}, ARGV, 1
for i = 1, #KEYS, 2 do
  if PORTION <= 0 then break end -- the calls before have used it up: see finish
  local what, count = acquire, given[at] + 0
  if count < 0 then
    what, count = release, -count
  end
  local done, reply = pcall(what, {KEYS[i], KEYS[i + 1]}, {unpack(given, at + 1, at + count)})
  replies[#replies + 1] = done and reply
  at = at + count + 1
end
return replies
