-- The one ticket there is gives a sign of life, its share unchanged. Answers its number.
local function renew_alone(k, head, card, life)
  if not head or string.byte(head) ~= ALONE or string.sub(head, 10, 33) ~= string.sub(card, 1, 24) then return end
  local left = redis.call('PTTL', k)
  if left > KEEP_MS and left <= tonumber(life)
    and not redis.pcall('SET', k, string.sub(head, 1, 9) .. card, 'PX', life).err then
    return (struct.unpack('<d', head, 2))
  end
end
