-- Uses: FULL, FULL_FORMAT, FULL_ID, KEEP_MS, NEAR, TICKETS_MAX, be_whole
-- The line of a mutex: all want all there is, and the first one holds. One more that wants it all goes to the back.
-- Answers its place, or nothing where it is not so, and then nothing is changed.
local function join_behind(k, head, card, life, now, floor)
  if not head or string.byte(head, 9) ~= FULL or #head < FULL_ID + 60 then return end
  be_whole()
  local last, _, edge, quiet, latest, kept, wanted, taken, of, behind, common, mixed, at = struct.unpack(FULL_FORMAT, head)
  local first, first_number, first_end = struct.unpack('<c16dd', head, at)
  local take, capacity, ttl = struct.unpack('<I4I4d', card, 34)
  local ends, number, id = now + ttl, math.max(last + 1, now, floor or 0), string.sub(card, 2, 17)
  local is_mutex = taken == of and edge == first_number and common == of and mixed == 0
  local is_usual = take == of and capacity == of and behind + 1 < TICKETS_MAX
    and first_end > now and quiet > now and first ~= id
  if not is_mutex or not is_usual then return end
  -- The head's key lives for as long as whoever lives longest, and as the number, and those of the others even longer.
  if number > ends or ends < latest or ends + KEEP_MS * 1000 > kept then return end
  -- Whoever stands there already keeps its place.
  if redis.call('ZADD', k .. ':l', 'NX', number, id) == 0 then return end
  redis.call('ZADD', k .. ':e', ends, id)
  redis.call('HSET', k .. ':t', id, struct.pack('<ddI4B', number, ends, take, 0) .. string.sub(card, 18))
  quiet, behind = math.min(quiet, ends), behind + 1
  head = struct.pack(FULL_FORMAT, number, FULL, edge, quiet, ends, kept, wanted + of, of, of, behind, of, 0)
    .. string.sub(head, at)
  redis.call('SET', k, head, 'PX', life)
  return {0, number, wanted, ttl, behind > NEAR and -1 or first_end - now, 0}
end
