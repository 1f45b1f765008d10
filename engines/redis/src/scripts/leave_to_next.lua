-- Uses: FULL, FULL_FORMAT, FULL_ID, NUMBER_MAX, be_whole, post
-- The line of a mutex, and the first one leaves, as its owner wants: the next one is served.
-- Answers what a leave does, or nothing where it is not so.
local function leave_to_next(k, head, who, now)
  if not head or string.byte(head, 9) ~= FULL or #head < FULL_ID + 60 then return end
  be_whole()
  local last, _, edge, quiet, latest, kept, wanted, taken, of, behind, common, mixed, at = struct.unpack(FULL_FORMAT, head)
  local first, first_number, first_end, _, _, inbox = struct.unpack('<c16ddI4Bc16', head, at)
  local is_mutex = taken == of and edge == first_number and common == of and mixed == 0
  if not is_mutex or 'a' .. first .. inbox ~= who or first_end <= now or quiet <= now then return end
  local second = redis.call('ZPOPMIN', k .. ':l')[1]
  local ticket = second and redis.call('HGET', k .. ':t', second)
  if not ticket then
    -- Part of the line is gone: the long way finds nobody there, and forgets the rest of it.
    redis.call('DEL', k .. ':l')
    return
  end
  redis.call('HDEL', k .. ':t', second)
  redis.call('ZREM', k .. ':e', second)
  local number, ends, _, told, to = struct.unpack('<ddI4Bc16', ticket)
  if behind == 1 then quiet, kept, common = NUMBER_MAX, 0, 0 end
  if behind == 1 and told == 0 and last == number and last <= latest and latest == ends then
    head = struct.pack('<d', last) .. 'a' .. second .. to .. struct.pack('<I4I4', of, of) .. string.sub(ticket, 46)
  else
    head = struct.pack(FULL_FORMAT, last, FULL, number, quiet, latest, kept, wanted - of, of, of, behind - 1, common, 0)
      .. second .. ticket
  end
  -- Nobody lives longer by this, so neither does the key.
  redis.call('SET', k, head, 'KEEPTTL')
  local letter = second .. 'S' .. string.sub(ticket, 1, 8)
  if to == inbox then return {2, letter} end
  post(to, letter)
  return 2
end
