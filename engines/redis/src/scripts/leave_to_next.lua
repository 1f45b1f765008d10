-- The line of a mutex, and the first one leaves, as its owner wants: the next one is served.
-- Answers what a leave does, or nothing where it is not so.
local function leave_to_next(k, head, who, now)
  if not head or string.byte(head, 9) ~= MUTEX then return end
  be_whole()
  local quiet, latest, kept, of, behind, at = struct.unpack(MUTEX_FORMAT, head, 10)
  local inbox, _, first_end = string.sub(who, 18), struct.unpack('<dd', head, at + 16)
  local is_first = string.sub(head, at, at + 15) == string.sub(who, 2, 17) and string.sub(head, at + 37, at + 52) == inbox
  if not is_first or first_end <= now or quiet <= now then return end
  local second = redis.call('ZPOPMIN', k .. ':l')[1]
  local ticket = second and redis.call('HGET', k .. ':t', second)
  if not ticket then
    -- Part of the line is gone: the long way finds nobody there, and forgets the rest of it.
    redis.call('DEL', k .. ':l')
    return
  end
  redis.call('HDEL', k .. ':t', second)
  redis.call('ZREM', k .. ':e', second)
  local last, number, to = string.sub(head, 1, 8), string.sub(ticket, 1, 8), string.sub(ticket, 22, 37)
  local edge, ends, _, told = struct.unpack('<ddI4B', ticket)
  if behind > 1 then
    head = last .. 'm' .. struct.pack(MUTEX_FORMAT, quiet, latest, kept, of, behind - 1) .. second .. ticket
  elseif told == 0 and last == number and latest == ends then
    head = last .. 'a' .. second .. to .. struct.pack('<I4I4', of, of) .. string.sub(ticket, 46)
  else
    local state = struct.pack(FULL_FORMAT, edge, NUMBER_MAX, latest, 0, of, of, of, 0, 0, 0)
    head = last .. 'f' .. state .. second .. ticket
  end
  -- Nobody lives longer by this, so neither does the key.
  redis.call('SET', k, head, 'KEEPTTL')
  local letter = second .. 'S' .. number
  if to == inbox then return {2, letter} end
  post(to, letter)
  return 2
end
