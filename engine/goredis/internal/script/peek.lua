-- Reads the state in brief, at a cost that does not grow with the number of holders and waiters:
-- the holder of a capacity of 1, or some of a condition. It changes nothing.
-- KEYS  core and line of the resource
-- ARGV  1 how many holders of a condition to look at, 2 the entry of the order after
--       which to go on, or left out
-- Returns  {now, kind:capacity or '', last token, holders, marked until, queue length, more}, where
--       holders is {ID, deadline, info, ...}, and more is '' if there are no others; of a condition
--       it is the last entry of the order that was looked at
--#include constants
local call = redis.call
--#include clock
local core = call('HMGET', KEYS[1], 'kind', 'token', 'holder', 'deadline', 'note', 'marked', 'queued', 'used')
if not core[1] then return {now, '', 0, {}, 0, 0, ''} end
local kind, holders, more, digits = core[1], {}, '', string.format
--#include order
if string.match(kind, ':1$') then
  if (tonumber(core[4]) or 0) > now then holders = {core[3], core[4], core[5]} end
elseif ordered() then
  local rank = ARGV[2] and call('ZRANK', KEYS[2], ARGV[2])
  rank = rank and rank + 1 or call('ZCOUNT', KEYS[2], '-inf', '(' .. ORDER)
  local names, leases, fields = call('ZRANGE', KEYS[2], rank, rank + ARGV[1] - 1), {}, {}
  for i, name in ipairs(names) do
    if string.byte(name) ~= 111 then break end -- 'o'
    leases[i], fields[i] = 'h' .. string.sub(name, 18), '@' .. string.sub(name, 18)
  end
  if #leases == ARGV[1] + 0 then more = names[#names] end
  local ends = leases[1] and call('ZMSCORE', KEYS[2], unpack(leases)) or {}
  local infos = leases[1] and call('HMGET', KEYS[1], unpack(fields)) or {}
  for i, lease in ipairs(leases) do
    local n, till = #holders, tonumber(ends[i] or 0)
    if till > now then
      holders[n + 1], holders[n + 2], holders[n + 3] = string.sub(lease, 2), digits('%.0f', till), infos[i] or ''
    end
  end
elseif (tonumber(core[8]) or 0) > 0 then
  more = 'used'
end
return {now, kind, tonumber(core[2]), holders, tonumber(core[6] or 0), tonumber(core[7] or 0), more}

