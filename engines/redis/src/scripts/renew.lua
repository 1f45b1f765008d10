-- ARGV: card, how long in ms the key lives if the ticket is alone, the floor, and `full` as for leaving.
if ARGV[4] == 'full' then redis.call('DEL', k .. ':none') end
read()
expire()
local take, _, id, ttl, body = unpack_card(ARGV[1])
local ticket = find(id)
local answer = ticket and renew(id, ticket, take, ttl, tonumber(ARGV[3]), body)
write()
return answer
