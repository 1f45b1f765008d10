-- ARGV: id and inbox of whoever asks, 1 to tell the ticket or 0 to take it out, and `full` where the server
-- has said that its memory is: it lets a script go on that has begun with a step that frees some.
if ARGV[3] == 'full' then redis.call('DEL', k .. ':none') end
local id, asks = string.sub(ARGV[1], 1, 16), string.sub(ARGV[1], 17)
read()
expire()
local ticket = find(id)
if not ticket then
  write()
  return 0
end
local number, ends, take, told, body = unpack_ticket(ticket)
local holding = number <= edge
if holding and ARGV[2] == '1' then
  if told == 0 then
    ticket, changed = pack(number, ends, take, 1, body), true
    if id == front then first = ticket else redis.call('HSET', k .. ':t', id, ticket) end
    tell(body, id, 'T', number)
  end
  write()
  return 3
end
remove(id, ticket)
settle()
if string.sub(body, 1, 16) ~= asks then tell(body, id, 'O', number) end
write()
return holding and 2 or 1
