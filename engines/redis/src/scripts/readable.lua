-- Uses: ALONE, FULL, FULL_ID, NUMBER_MAX
-- Whether this version of Tenure has written such a head: a number, and a line of a kind that it knows, as long as one is.
local function is_readable(head)
  if #head < 8 then return false end
  local last, kind = struct.unpack('<d', head), string.byte(head, 9)
  if not (last >= 0 and last <= NUMBER_MAX and last % 1 == 0) then return false end
  if not kind then return true end
  return kind == ALONE and #head >= 61 or kind == FULL and #head >= FULL_ID + 60
end
