-- The short way to the end of the line, for a lease that is held, and with it the
-- hand-over of one that yields. An ID that waits already goes the long way, and so
-- do keys that do not fit together.
--#include pass
--#include notify
local queued, next, digits = (held[3] or 0) + 0, core[1] - now, string.format
local place = digits('%d', (held[4] or 0) + 1)
if call('ZADD', KEYS[2], 'NX', place, 'q' .. ARGV[1]) == 1 then
  local asked = digits('%016d ', now)
  local info = asked .. asked .. '1 ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' 0 ' .. string.sub(ARGV[5], #ARGV[4] + 4) -- its note's reason
  if ARGV[9] then
    local front, message, ends, top = pass(core[2] + 0, core[3] + 0, core[4], held[2], queued, '@' .. ARGV[1], info, 'tail', place)
    if front then
      notify(front, message)
      return {2, queued - 1, ends - now, top}
    end
  elseif queued == 0 or call('ZCARD', KEYS[2]) > 1 then
    call('HSET', KEYS[1], 'queued', digits('%d', queued + 1), 'tail', place, '@' .. ARGV[1], info)
    if queued == 0 then
      call('HSET', KEYS[1], 'easy', '+' .. ARGV[2])
      call('PEXPIREAT', KEYS[2], digits('%d', math.ceil(core[3] / 1000)))
    end
    return {2, queued, next, core[2] + 0}
  end
  call('ZREM', KEYS[2], 'q' .. ARGV[1])
end
