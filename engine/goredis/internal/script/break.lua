-- Breaks a lease or a wait for an operator and notifies its client; or ends the mark.
-- KEYS  core and line of the resource
-- ARGV  1 holder ID, or 'mark', and unless both are default: 2 'f' to end a lease in this step or '', 3 reason
-- Returns  0, or -cause or the reason of an earlier break if the ID neither holds nor waits, or nothing is marked
--#include constants
local call = redis.call
--#include clock
local id, force, reason = ARGV[1], ARGV[2] == 'f', ARGV[3] or ''
--#include law

--#include break.party

-- breaks returns whether there was something to break.
local function breaks()
  if id == 'mark' and marked > now then
    marked, changed = 0, true
    call('HSET', CORE, 'marked', 0)
    return true
  end
  local till = not force and held(id)
  if till then
    breaking(till)
    bury(id, 'b', till)
    explain(false)
    return true
  end
  local again = not force and held(BREAKING .. id)
  if not again then
    local had, broken = drop(id)
    if not had then return false end
    bury(id, 'b', now)
    again = broken
  end
  explain(again)
  return true
end

reap()
expire(id)
local had = breaks()
advance()
if not had then return finish(refusal(id, 0)) end
local reply = finish(0)
notify(id, reason == '' and 'b ' .. id or 'r ' .. #id .. ' ' .. id .. ' ' .. reason)
return reply

--#section party
-- breaking renames a lease to one that is breaking. A signal does not find it any more.
local function breaking(till)
  changed = true
  if capacity == 1 then
    holder = BREAKING .. id
    return
  end
  local info = call('HGET', CORE, '@' .. id) or ''
  local token = string.match(info, '^%d+ (%d+) ')
  call('ZADD', LINE, till, 'h' .. BREAKING .. id)
  call('ZREM', LINE, 'h' .. id)
  if token and ordered() then call('ZREM', LINE, place(token, id)) end
  call('HSET', CORE, '@' .. BREAKING .. id, info)
  call('HDEL', CORE, '@' .. id)
end

-- explain stores the reason of a break. Without one that of a break before stays.
local function explain(again)
  if reason ~= '' then
    call('HSET', CORE, '!' .. id, reason)
  elseif not again then
    call('HDEL', CORE, '!' .. id) -- of an old tombstone
  end
end
