-- Uses: expire, find, k, read, renew, unpack_card, write
-- ARGV: card, how long in ms the key lives if the ticket is alone; then the floor, if there is one, and `full` as for
-- leaving.
if ARGV[#ARGV] == 'full' then redis.call('DEL', k .. ':none') end
read()
expire()
local take, _, id, ttl, body = unpack_card(ARGV[1])
local ticket = find(id)
local answer = ticket and renew(id, ticket, take, ttl, tonumber(ARGV[3]) or 0, body)
write()
return answer
