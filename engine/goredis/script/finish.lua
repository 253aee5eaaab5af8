-- finish stores what has changed, then sends the wake-ups: a grant that is told
-- is a grant that is stored. A free resource of capacity 1 that has neither
-- waiters nor endings to look at says so by its kind in place of a deadline;
-- that is what the short ways test.
local function finish(answer)
  if changed then
    local free = capacity == 1 and used == 0 and queued == 0 and ended == 0 and birth > 0
    call('HSET', CORE, 'kind', kind, 'token', last, 'birth', birth, 'used', used, 'queued', queued,
      'ended', ended, 'keep', kept, 'holder', holder, 'deadline', free and kind or deadline, 'note', note)
  end
  local expiry = math.ceil(kept / 1000)
  for _, key in ipairs(KEYS) do
    if raised or fresh[key] then call('PEXPIREAT', key, expiry) end
  end
  for _, grant in ipairs(grants) do notify(grant[1], grant[2]) end
  return answer
end
