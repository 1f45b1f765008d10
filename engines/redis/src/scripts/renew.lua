-- ARGV: card, floor, and `full` as for leaving.
if ARGV[3] == 'full' then redis.call('DEL', k .. ':none') end
read()
expire()
local take, _, id, ttl, body = unpack_card(ARGV[1])
local ticket = find(id)
local answer = ticket and renew(id, ticket, take, ttl, tonumber(ARGV[2]), body)
write()
return answer
