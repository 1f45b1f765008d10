-- ARGV: card, ttl, floor, and `full` as for leaving.
if ARGV[4] == 'full' then redis.call('DEL', k .. ':none') end
read()
expire()
local take, _, at = struct.unpack('<I4I4', ARGV[1])
local id = string.sub(ARGV[1], at, at + 15)
local ticket = find(id)
local answer = ticket
  and renew(id, ticket, take, tonumber(ARGV[2]), tonumber(ARGV[3]), string.sub(ARGV[1], at + 16))
write()
return answer
