-- What others may see of somebody in the line, if there is anybody; nothing is changed.
local function look(k, head)
  if not head or #head == 9 then return false end
  if string.byte(head) == ALONE then
    return redis.call('PTTL', k) > KEEP_MS and string.sub(head, 34)
  end
  -- The first ticket stands behind 70 bytes and its id; its end is its second number.
  local lives = struct.unpack('<d', head, 95) > clock()
    or redis.call('ZCOUNT', k .. ':e', '(' .. string.format('%.0f', clock()), '+inf') > 0
  return lives and string.sub(head, 108)
end
