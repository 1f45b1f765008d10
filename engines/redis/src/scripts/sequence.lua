-- Uses: NUMBER_MAX, be_master, be_number
-- A number that only grows. ARGV: by how much.
local kept = redis.call('GET', KEYS[1]) or '0'
-- From anything else none follows that was not given before.
be_number(kept)
local value = tonumber(kept) + ARGV[1]
if value > NUMBER_MAX or tonumber(ARGV[1]) == 0 then be_master() end
if value > NUMBER_MAX then return {-1, value - ARGV[1]} end
if tonumber(ARGV[1]) > 0 then redis.call('INCRBY', KEYS[1], ARGV[1]) end
return {1, value}
