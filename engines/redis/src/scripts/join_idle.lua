-- Nobody is there: the ticket is the whole line. Answers its number, or nothing where it is not so.
-- What the server refuses is refused to the long way as well, which says why.
local function join_idle(k, head, card, life, floor)
  if head and #head ~= 9 then return end
  -- The line is known by what the server remembers, which may be older than what it once gave: a snapshot, a
  -- lost end of its log, the copy of a replica that lagged. The clock is above all that was given.
  local number = math.max(head and struct.unpack('<d', head, 2) + 1 or 0, clock(), floor or 0)
  -- The key must outlive the time that its number stands for.
  if number > NUMBER_MAX or number > clock() + (life - KEEP_MS) * 1000 then return end
  if not redis.pcall('SET', k, 'a' .. struct.pack('<d', number) .. card, 'PX', life).err then return number end
end
