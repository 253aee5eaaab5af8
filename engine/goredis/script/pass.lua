-- The short way of a hand-over, of capacity 1: the lease goes to the front of the
-- line. Needs call and now. It takes what the core has for token, keep, ended and
-- easy, the number of those who wait after it, and further fields to store. It returns
-- the new holder, its message, the end of its lease and the last token; or nil, and the long way
-- decides: about a front that is dead or marks, and about keys that do not fit together.
local function pass(last, keep, ended, easy, waiting, ...)
  local member -- without endings the first of all, which is quicker to find
  if not ended or ended == '0' then
    member = call('ZRANGE', KEYS[2], 0, 0)[1]
  else
    member = call('ZRANGEBYSCORE', KEYS[2], 1, '(1000000000000', 'LIMIT', 0, 1)[1]
  end
  if not member or string.byte(member) ~= 113 then return end -- not 'q': an ending that is over
  local front, match, digits = string.sub(member, 2), string.match, string.format
  local info = call('HGET', KEYS[1], '@' .. front) or ''
  local ttl, reserve, reason = match(info, '^1 (%d+) (%d+) 0 (.*)$', 35)
  if not ttl or string.sub(info, 1, 16) + 3000000 <= now then return end -- WAITER_LIFE
  ttl = math.min(ttl + 0, 3000000) -- CLAIM_WINDOW
  local token = math.max(last + 1, now)
  local top, till = token + reserve, now + ttl
  if keep < math.max(top, till) + reach then return end
  call('ZREM', KEYS[2], member)
  call('HDEL', KEYS[1], '@' .. front)
  call('HSET', KEYS[1], 'deadline', digits('%d', till), 'token', digits('%d', top), 'holder', front,
    'easy', waiting == 0 and string.sub(easy, 2) or easy, 'queued', digits('%d', waiting),
    'note', reserve .. digits(' %d ', token == now and 0 or now) .. reason, ...)
  return front, digits('g %d %d %s', token, ttl, front), till, top
end
