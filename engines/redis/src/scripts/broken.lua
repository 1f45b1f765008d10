-- Uses: be_master
-- Which of these tickets were broken a short while ago. ARGV: their ids.
be_master()
local broken = {}
for at, id in ipairs(ARGV) do broken[at] = redis.call('GET', KEYS[1] .. ':b' .. id) end
return broken
