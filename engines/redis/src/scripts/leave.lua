-- Uses: BROKEN_MS, changed, edge, expire, find, first, front, k, letters, own, pack, read, remove, settle, taken, tell, unpack_ticket, write
-- ARGV: 'a', then id and inbox of whoever asks. Nothing more, if the ticket is that client's own and lives, as far as it
-- knows; `long`, if it may live for so long that an idle line need not be kept for all of it. Else `now` to take the
-- ticket out or `soon` to tell it; and `full` where the server has said that its memory is: it lets a script go on that
-- has begun with a step that frees some.
if ARGV[#ARGV] == 'full' then redis.call('DEL', k .. ':none') end
local id = string.sub(ARGV[1], 2, 17)
own = string.sub(ARGV[1], 18)

-- What became of the ticket, and whom of the asking client's this serves.
local function answer(left)
  if not letters then return left end
  table.insert(letters, 1, left)
  return letters
end

-- Onlookers see lines now and then: a ticket that was broken between two looks is remembered for a while. A server that
-- has no memory left for it shows the ticket as one that left.
local function note_broken()
  redis.pcall('SET', k .. ':b' .. id, 1, 'PX', BROKEN_MS)
end

-- Whether it left before, and the answer was lost, nobody knows: so all of the client's that are served are told.
local function tell_served()
  letters = nil
  if not front then return end
  local number, _, first_take, _, body = unpack_ticket(first)
  if number <= edge and string.sub(body, 1, 16) == own then tell(body, front, 'S', number) end
  if taken <= first_take then return end
  local ids = redis.call('ZRANGEBYSCORE', k .. ':l', '-inf', edge)
  for _, who in ipairs(ids) do
    local ticket = redis.call('HGET', k .. ':t', who)
    if ticket then
      local number, _, _, _, body = unpack_ticket(ticket)
      if string.sub(body, 1, 16) == own then tell(body, who, 'S', number) end
    end
  end
end

read()
expire()
local ticket = find(id)
if not ticket then
  tell_served()
  write()
  return answer(0)
end
local number, ends, take, told, body = unpack_ticket(ticket)
local holding = number <= edge
if holding and ARGV[2] == 'soon' then
  if told == 0 then
    ticket, changed = pack(number, ends, take, 1, body), true
    if id == front then first = ticket else redis.call('HSET', k .. ':t', id, ticket) end
    tell(body, id, 'T', number)
    note_broken()
  end
  write()
  return answer(3)
end
remove(id, ticket)
settle()
local others = string.sub(body, 1, 16) ~= own
if others then tell(body, id, 'O', number) end
if others or ARGV[2] == 'soon' then note_broken() end
write()
return answer(holding and 2 or 1)
