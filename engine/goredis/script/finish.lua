-- The short ways need '%d' to take times, as it does unless Redis was built for
-- 32 bits.
local WIDE = string.format('%d', 1000000000000000) == '1000000000000000'

-- digits is much faster than what HSET does with a number. A text stays.
local function digits(n) return type(n) == 'number' and string.format(WIDE and '%d' or '%.0f', n) or n end

-- store writes the core, and what opens the short ways. Without waiters and
-- mark a resource of capacity 1 is easy: they release it by writing easy, its
-- kind, into the deadline, and acquire it if they find their kind there; with
-- waiters easy is '+' and the kind, and they join the line and pass the lease on.
-- One of a higher capacity is open until its first lease ends. What they read is stored
-- first: Redis searches small hashes in order, and makes a table of one with a
-- long value, which a hash of many leases had better be.
local function store()
  local easy, short = '', queued == 0 and marked <= now and birth > 0 and WIDE
  if capacity > 1 then
    local first, ends = soonest()
    deadline = short and not ordered() and (first and ends or kept) or 0
    easy, holder, note = 'shared', '', ANCHOR
  else
    if short then
      easy = kind
    elseif queued > 0 and marked <= now and WIDE and call('ZCOUNT', LINE, TURNS, '(' .. EPOCH) == 0 then
      easy = '+' .. kind -- turns are called, not granted: nothing short does that
    end
    if used == 0 then deadline = short and easy or 0 end
  end
  if not raw[7] and easy == kind and ended == 0 then -- a fresh core: the fields left out are 0
    call('HSET', CORE, 'deadline', digits(deadline), 'token', digits(last), 'keep', digits(kept),
      'holder', holder, 'easy', easy, 'note', note, 'kind', kind, 'birth', digits(birth))
    return
  end
  call('HSET', CORE, 'deadline', digits(deadline), 'token', digits(last), 'keep', digits(kept), 'ended', digits(ended),
    'holder', holder, 'easy', easy, 'note', note, 'queued', digits(queued), 'tail', digits(tail), 'kind', kind,
    'used', digits(used), 'birth', digits(birth))
end

-- finish stores what has changed, then sends the wake-ups: a grant that is told
-- is a grant that is stored.
local function finish(answer)
  if changed then store() end
  local expiry = math.ceil(kept / 1000)
  if raised then call('PEXPIREAT', CORE, expiry) end
  if raised or begun then call('PEXPIREAT', LINE, expiry) end
  for _, wake in ipairs(wakes) do notify(wake[1], wake[2]) end
  if more then return {-1, answer} end -- see tidy.go
  return answer
end
