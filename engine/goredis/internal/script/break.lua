-- Breaks a lease or a wait for an operator and notifies its client; or ends the mark.
-- KEYS  core and line of the resource
-- ARGV  1 holder ID, or 'mark', 2 'f' to end a lease in this step, or left out
-- Returns  0, or -cause if the ID neither holds nor waits, or nothing is marked
--#include constants
local call = redis.call
--#include clock
local id, force = ARGV[1], ARGV[2] == 'f'
--#include law

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
    return true
  end
  if not force and held(BREAKING .. id) then return true end -- again
  if not drop(id) then return false end
  bury(id, 'b', now)
  return true
end

reap()
expire(id)
local had = breaks()
advance()
if not had then return finish(-why(id, 0)) end
local reply = finish(0)
notify(id, 'b ' .. id)
return reply
