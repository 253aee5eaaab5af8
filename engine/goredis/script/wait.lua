-- The short way to the end of the line, for a lease that is held, and with it the
-- hand-over of one that yields. An ID that waits already goes the long way, and so
-- do keys that do not fit together.
--#include pass
--#include notify
local tail, queued = held[4] + 1, held[3] + 0
local place, next = string.format('%d', tail), core[1] - now
if call('ZADD', KEYS[2], 'NX', place, 'q' .. ARGV[1]) == 1 then
  local info = string.format('1 %s %s 0 %d %d %s', ARGV[3], ARGV[4], now, now, string.match(ARGV[5], '^%d+ %d+ (.*)$'))
  if ARGV[9] then
    local front, message, ends, top = pass(core[2] + 0, core[3] + 0, core[4], held[2], queued, '@' .. ARGV[1], info, 'tail', place)
    if front then
      notify(front, message)
      return {2, queued - 1, ends - now, top}
    end
  elseif queued == 0 or call('ZCARD', KEYS[2]) > 1 then
    call('HSET', KEYS[1], 'queued', string.format('%d', queued + 1), 'tail', place, '@' .. ARGV[1], info)
    if queued == 0 then
      call('HSET', KEYS[1], 'easy', '+' .. ARGV[2])
      call('PEXPIREAT', KEYS[2], string.format('%d', math.ceil(core[3] / 1000)))
    end
    return {2, queued, next, core[2] + 0}
  end
  call('ZREM', KEYS[2], 'q' .. ARGV[1])
end
