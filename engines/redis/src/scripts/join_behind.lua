-- The line of a mutex, and the ticket is one more that wants all there is: it goes to the back.
-- Answers its place, or nothing where it is not so, and then nothing is changed.
local function join_behind(k, head, card, life, now, floor)
  if not head or string.byte(head, 9) ~= MUTEX or #head < MUTEX_ID + 60 then return end
  be_whole()
  local last, _, quiet, latest, kept, of, behind, first, _, first_end = struct.unpack('MUTEX_FORMAT c16dd', head)
  local take, capacity, ttl = struct.unpack('<I4I4d', card, 34)
  local ends, number = now + ttl, math.max(last + 1, now, floor or 0)
  local id, ahead = string.sub(card, 2, 17), of * (behind + 1)
  local is_usual = take == of and capacity == of and behind + 1 < TICKETS_MAX
    and first_end > now and quiet > now and first ~= id
  -- The head's key lives for as long as whoever lives longest, and as the number, and those of the others even longer.
  if not is_usual or number > ends or ends < latest or ends + KEEP_MS * 1000 > kept then return end
  -- Whoever stands there already keeps its place.
  if redis.call('ZADD', k .. ':l', 'NX', number, id) == 0 then return end
  redis.call('ZADD', k .. ':e', ends, id)
  redis.call('HSET', k .. ':t', id, struct.pack('<ddI4B', number, ends, take, 0) .. string.sub(card, 18))
  quiet, behind = math.min(quiet, ends), behind + 1
  head = struct.pack('MUTEX_FORMAT', number, MUTEX, quiet, ends, kept, of, behind) .. string.sub(head, MUTEX_ID)
  redis.call('SET', k, head, 'PX', life)
  return {0, number, ahead, ttl, behind > NEAR and -1 or first_end - now, 0}
end
