-- Tells who holds and who waits. It changes nothing.
-- KEYS  core, holders, queue, info, endings of the resource
-- ARGV  none
-- Returns  {now, kind:capacity or '', last token, holders, waiters}, where
--       holders is {ID, deadline, info, ...} and waiters is {ID, info, ...}
local call = redis.call
--#include clock
local core = call('HMGET', KEYS[1], 'kind', 'token', 'holder', 'deadline', 'note', 'used', 'queued')
if not core[1] then return {now, '', 0, {}, {}} end
local holders, waiters = {}, {}

-- describe appends the info of IDs to a list, in pieces that fit Lua's stack.
local function describe(list, ids, deadlines)
  for from = 1, #ids, 1000 do
    local till = math.min(from + 999, #ids)
    local infos = call('HMGET', KEYS[4], unpack(ids, from, till))
    for i = from, till do
      list[#list + 1] = ids[i]
      if deadlines then list[#list + 1] = deadlines[i] end
      list[#list + 1] = infos[i - from + 1] or ''
    end
  end
end

local deadline = tonumber(core[4]) or 0
if deadline > now then
  holders = {core[3], core[4], core[5]}
elseif tonumber(core[6]) > 0 then
  local ids, deadlines = {}, {}
  local live = call('ZRANGEBYSCORE', KEYS[2], string.format('(%.0f', now), '+inf', 'WITHSCORES')
  for i = 1, #live, 2 do
    ids[#ids + 1], deadlines[#deadlines + 1] = live[i], string.format('%.0f', live[i + 1])
  end
  describe(holders, ids, deadlines)
end
if tonumber(core[7]) > 0 then describe(waiters, call('ZRANGE', KEYS[3], 0, -1)) end
return {now, core[1], tonumber(core[2]), holders, waiters}
