-- Nobody is there: the ticket is the whole line. Answers its number, or nothing where it is not so.
-- What the server refuses is refused to the long way as well, which says why.
local function join_idle(k, head, card, life, floor)
  if not head or #head ~= 9 then return end
  local number = struct.unpack('<d', head, 2) + 1
  if floor and floor > number then number = floor end
  if number <= NUMBER_MAX and not redis.pcall('SET', k, 'a' .. struct.pack('<d', number) .. card, 'PX', life).err then
    return number
  end
end
