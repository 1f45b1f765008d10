-- ARGV: id, share, ttl, floor, body, and `full` as for leaving.
if ARGV[6] == 'full' then redis.call('DEL', k .. ':none') end
read(head)
expire()
local ticket = find(id)
local answer = ticket and renew(id, ticket, tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5])
write()
return answer
