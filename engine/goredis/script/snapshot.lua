-- Tells who holds and who waits. It changes nothing.
-- KEYS  core and line of the resource
-- ARGV  none
-- Returns  {now, kind:capacity or '', last token, holders, waiters, marked until}, where
--       holders is {ID, deadline, info, ...}, '!' before the ID if it is breaking, and waiters is {ID, info, ...}
local call = redis.call
--#include clock
local core = call('HMGET', KEYS[1], 'kind', 'token', 'holder', 'deadline', 'note', 'marked')
if not core[1] then return {now, '', 0, {}, {}, 0} end
local holders, waiters = {}, {}
if string.match(core[1], ':1$') and (tonumber(core[4]) or 0) > now then holders = {core[3], core[4], core[5]} end

local line = call('ZRANGEBYSCORE', KEYS[2], 1, '+inf', 'WITHSCORES')
for from = 1, #line, 1000 do -- in pieces that fit Lua's stack
  local fields, till = {}, math.min(from + 999, #line)
  for i = from, till, 2 do fields[#fields + 1] = '@' .. string.sub(line[i], 2) end
  local infos = call('HMGET', KEYS[1], unpack(fields))
  for i, info in ipairs(infos) do
    local id, score = string.sub(fields[i], 2), tonumber(line[from + 2 * i - 1])
    if string.sub(line[from + 2 * i - 2], 1, 1) == 'q' then
      waiters[#waiters + 1] = id
      waiters[#waiters + 1] = info or ''
    elseif score > now then
      holders[#holders + 1] = id
      holders[#holders + 1] = string.format('%.0f', score)
      holders[#holders + 1] = info or ''
    end
  end
end
return {now, core[1], tonumber(core[2]), holders, waiters, tonumber(core[6] or 0)}
