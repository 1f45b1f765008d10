-- What others may see of somebody in the line, if there is anybody; nothing is changed.
if not head or #head == 8 then return false end
if struct.unpack('<d', head, 94) > now or redis.call('ZCOUNT', k .. ':e', '(' .. string.format('%.0f', now), '+inf') > 0 then
  return string.sub(head, 107)
end
return false
