-- Uses: KEEP_MS, NUMBER_MAX
-- Nobody is there: the ticket is the whole line. Answers its number, or nothing where it is not so.
-- What the server refuses is refused to the long way as well, which says why.
local function join_idle(k, head, card, life, now, floor)
  if head and #head ~= 8 then return end
  -- The line is known by what the server remembers, which may be older than what it once gave: a snapshot, a
  -- lost end of its log, the copy of a replica that lagged. The clock is above all that was given.
  local number = now
  if head then
    local last = struct.unpack('<d', head)
    -- What is no number is refused the long way.
    if not (last >= 0 and last % 1 == 0) then return end
    number = math.max(last + 1, number)
  end
  if floor then number = math.max(floor, number) end
  -- The key must outlive the time that its number stands for.
  if number > NUMBER_MAX or number > now and number > now + (life - KEEP_MS) * 1000 then return end
  local alone = struct.pack('<d', number) .. card
  -- A batch is not shown what is no string under this name, which must not be written over.
  local set = head and redis.pcall('SET', k, alone, 'PX', life) or redis.pcall('SET', k, alone, 'PX', life, 'NX')
  if set and set.ok then return number end
end
