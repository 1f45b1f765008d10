-- Uses: ALONE, FULL_ID, KEEP_MS, is_readable
-- What others may see of somebody in the line, if there is anybody; nothing is changed.
local function look(k, head, now)
  if not head or #head == 8 then return false end
  if not is_readable(head) then error('tenure-unreadable') end
  if string.byte(head, 9) == ALONE then
    return redis.call('PTTL', k) > KEEP_MS and string.sub(head, 26)
  end
  -- Behind what is said of the line stand the id of the first one, and its ticket, whose end is its second number.
  local lives = struct.unpack('<d', head, FULL_ID + 24) > now
    or redis.call('ZCOUNT', k .. ':e', '(' .. string.format('%.0f', now), '+inf') > 0
  return lives and string.sub(head, FULL_ID + 37)
end
