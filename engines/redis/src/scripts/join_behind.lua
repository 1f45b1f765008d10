-- One holds all there is, whoever waits wants all there is, and the ticket is one more of those: it goes to the back.
-- Answers its place, or nothing where it is not so, and then nothing is changed.
local function join_behind(k, head, card, floor)
  if not head or string.byte(head) ~= FULL then return end
  be_whole()
  local last, edge, quiet, latest, kept, wanted, taken, of, behind, common, mixed, at = struct.unpack(FORMAT, head, 2)
  local _, first_end, first_take = struct.unpack('<ddI4', head, at + 16)
  local take, capacity = struct.unpack('<I4I4', card)
  local ends, number = clock() + struct.unpack('<d', card, 41), math.max(last + 1, clock(), floor or 0)
  latest = math.max(latest, ends)
  local are_alike = take == of and capacity == of and first_take == of and taken == of and common == of and mixed == 0
  local is_usual = behind > 0 and behind + 1 < TICKETS_MAX and first_end > clock() and quiet > clock()
    and number <= NUMBER_MAX and latest + KEEP_MS * 1000 <= kept
  local id = string.sub(card, 9, 24)
  if not are_alike or not is_usual or string.sub(head, at, at + 15) == id then return end
  -- Whoever stands there already keeps its place.
  if redis.call('ZADD', k .. ':l', 'NX', string.format('%d', number), id) == 0 then return end
  redis.call('ZADD', k .. ':e', string.format('%d', ends), id)
  redis.call('HSET', k .. ':t', id, struct.pack('<ddI4B', number, ends, take, 0) .. string.sub(card, 25))
  local life = math.ceil(math.max(latest, number) / 1000) - math.floor(clock() / 1000) + KEEP_MS
  head = struct.pack(FORMAT, number, edge, math.min(quiet, ends), latest, kept, wanted + take, taken, of, behind + 1,
    common, mixed) .. string.sub(head, at)
  redis.call('SET', k, 'f' .. head, 'PX', life)
  return {0, number, wanted, ends - clock(), behind > NEAR and -1 or first_end - clock(), 0}
end
