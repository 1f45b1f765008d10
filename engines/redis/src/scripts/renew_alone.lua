-- Uses: ALONE, KEEP_MS
-- The one ticket there is gives a sign of life, its share unchanged. Answers its number.
local function renew_alone(k, head, card, life)
  if not head or string.sub(head, 9, 49) ~= string.sub(card, 1, 41) or string.byte(head, 9) ~= ALONE then return end
  local left = redis.call('PTTL', k)
  if left > KEEP_MS and left <= tonumber(life)
    and redis.pcall('SET', k, string.sub(head, 1, 8) .. card, 'PX', life).ok then
    return (struct.unpack('<d', head))
  end
end
