-- Uses: NUMBER_MAX, be_master, be_number
-- A count that starts anew when its window ends. ARGV: by how much, the window in ms, the limit or -1.
-- Answers: 1 if it was counted, 0 if not, -1 if there is no such number; the value; the ms that are left.
local by, limit = tonumber(ARGV[1]), tonumber(ARGV[3])
local kept = redis.call('GET', KEYS[1]) or '0'
be_number(kept)
local value = tonumber(kept)
local left = redis.call('PTTL', KEYS[1])
if left == -1 then
  -- Somebody took its end away: a count without one would refuse for ever.
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
if left < 0 then left = tonumber(ARGV[2]) end
if by == 0 or value + by > NUMBER_MAX or limit >= 0 and value + by > limit then be_master() end
if value + by > NUMBER_MAX then return {-1, value, left} end
if limit >= 0 and value + by > limit then return {0, value, left} end
if by > 0 then
  if value == 0 then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', left)
  else
    redis.call('INCRBY', KEYS[1], ARGV[1])
  end
end
return {1, value + by, left}
