-- The first one holds all there is, whoever waits wants all there is, and the first one leaves, as its owner wants:
-- the next one is served. Answers what a leave does, or nothing where it is not so.
local function leave_to_next(k, head, who)
  if not head or string.byte(head) ~= FULL then return end
  be_whole()
  local last, edge, quiet, latest, kept, wanted, taken, of, behind, common, mixed, at = struct.unpack(FORMAT, head, 2)
  local number, first_end, first_take = struct.unpack('<ddI4', head, at + 16)
  local inbox = string.sub(who, 17)
  local is_first = string.sub(head, at, at + 15) == string.sub(who, 1, 16) and string.sub(head, at + 37, at + 52) == inbox
  local are_alike = first_take == of and taken == of and common == of and mixed == 0
  if not is_first or not are_alike or behind == 0 or edge ~= number then return end
  if first_end <= clock() or quiet <= clock() then return end
  local second = redis.call('ZPOPMIN', k .. ':l')[1]
  local ticket = second and redis.call('HGET', k .. ':t', second)
  if not ticket then
    -- Part of the line is gone: the long way finds nobody there, and forgets the rest of it.
    redis.call('DEL', k .. ':l')
    return
  end
  redis.call('HDEL', k .. ':t', second)
  redis.call('ZREM', k .. ':e', second)
  local ends, _, told
  number, ends, _, told = struct.unpack('<ddI4B', ticket)
  local life = math.ceil(math.max(latest, last) / 1000) - math.floor(clock() / 1000) + KEEP_MS
  if behind > 1 then
    head = 'f' .. struct.pack(FORMAT, last, number, quiet, latest, kept, wanted - of, of, of, behind - 1, common, mixed)
      .. second .. ticket
  elseif told == 0 and last == number and last <= latest and latest == ends then
    head = 'a' .. struct.pack('<dI4I4', number, of, of) .. second .. string.sub(ticket, 22)
  else
    head = 'f' .. struct.pack(FORMAT, last, number, NUMBER_MAX, latest, 0, of, of, of, 0, 0, 0) .. second .. ticket
  end
  redis.call('SET', k, head, 'PX', life)
  local letter, to = second .. 'S' .. string.format('%d', number), string.sub(ticket, 22, 37)
  if to == inbox then return {2, letter} end
  post(to, letter)
  return 2
end
