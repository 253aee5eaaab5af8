-- Reads a part of the holders and waiters, in the order of the line: waiters first, then leases by
-- deadline. The scores of waiters stay and those of leases only grow, so what is there all the time
-- is in one of the parts. A lease of capacity 1 is in each. It changes nothing.
-- KEYS  core and line of the resource
-- ARGV  1 how many entries at most, 2 the score from which on, 3 how many of that
--       score to leave out
-- Returns  {now, kind:capacity or '', last token, holders, waiters, marked until, next, left out, marked by}, where
--       holders is {ID, deadline, info, ...}, '!' before the ID if it is breaking, and waiters is
--       {ID, info, ...}; next is the score for the next part, or '' if this is the last, and
--       left out goes with it; marked by is {ID, info} of the latest lease of a capacity of 1, or {}
--#include constants
local call = redis.call
--#include clock
local core = call('HMGET', KEYS[1], 'kind', 'token', 'holder', 'deadline', 'note', 'marked')
if not core[1] then return {now, '', 0, {}, {}, 0, '', 0, {}} end
local holders, waiters, marker = {}, {}, {}
if string.match(core[1], ':1$') and (tonumber(core[4]) or 0) > now then holders = {core[3], core[4], core[5]} end
if string.match(core[1], ':1$') and tonumber(core[6] or 0) > now then marker = {core[3], core[5]} end

local line = call('ZRANGEBYSCORE', KEYS[2], ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', ARGV[3], ARGV[1])
local count, fields = #line / 2, {}
for i = 1, #line, 2 do fields[#fields + 1] = '@' .. string.sub(line[i], 2) end
local infos = count > 0 and call('HMGET', KEYS[1], unpack(fields)) or {}
for i, info in ipairs(infos) do
  local id, score = string.sub(fields[i], 2), tonumber(line[2 * i])
  if string.sub(line[2 * i - 1], 1, 1) == 'q' then
    waiters[#waiters + 1] = id
    waiters[#waiters + 1] = info or ''
  elseif score > now then
    holders[#holders + 1] = id
    holders[#holders + 1] = string.format('%.0f', score)
    holders[#holders + 1] = info or ''
  end
end
-- The next part begins with the last score once more, since others may have it too.
local next, passed = '', 0
if count == ARGV[1] + 0 then
  next = line[#line]
  if next == line[2] then passed = count + (next == ARGV[2] and ARGV[3] or 0) end
end
return {now, core[1], tonumber(core[2]), holders, waiters, tonumber(core[6] or 0), next, passed, marker}
