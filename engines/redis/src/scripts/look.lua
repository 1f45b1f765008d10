-- What others may see of somebody in the line, if there is anybody; nothing is changed.
if not head or #head == 9 then return false end
if string.byte(head) == ALONE then
  return redis.call('PTTL', k) > KEEP_MS and string.sub(head, 34)
end
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
-- The first ticket stands behind 70 bytes and its id; its end is its second number.
if struct.unpack('<d', head, 95) > tonumber(now) or redis.call('ZCOUNT', k .. ':e', '(' .. now, '+inf') > 0 then
  return string.sub(head, 108)
end
return false
