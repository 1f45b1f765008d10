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
if string.sub(body, 1, 16) ~= ARGV[3] then tell(body, id, 'O', number) end
write()
return holding and 2 or 1
