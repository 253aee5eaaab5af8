-- forget drops tombstones, given as members of the line, and the reasons of breaks among them.
local function forget(old)
  if #old == 0 then return end
  local reasons = {}
  for _, member in ipairs(old) do
    if string.byte(member) == 98 then reasons[#reasons + 1] = '!' .. string.sub(member, 2) end -- 'b'
  end
  call('ZREM', LINE, unpack(old))
  if #reasons > 0 then call('HDEL', CORE, unpack(reasons)) end
end
