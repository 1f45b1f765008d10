-- Uses: NUMBER_MAX, SHARES_MAX, TICKETS_MAX, behind, changed, edge, expire, find, first, front, last, latest, may_classify, now, of, owner_of, pack, place_behind, put_behind, read, renew, taken, unpack_card, unpack_ticket, wanted, write
-- ARGV: card, how long in ms the key lives if the ticket is alone; then, where they differ from what most
-- want, 0 for who would not wait, and the floor.
read()
local take, capacity, id, ttl, body = unpack_card(ARGV[1])
local floor = tonumber(ARGV[4] or 0)
expire()
local ticket = find(id)
if ticket then
  local owner = owner_of(select(5, unpack_ticket(ticket)))
  if owner ~= owner_of(body) then
    write()
    return owner
  end
  local answer = renew(id, ticket, take, ttl, floor, body)
  write()
  return answer
end
if front and of ~= capacity then
  write()
  return {-1, of}
end
local at_once = wanted + take <= capacity
if not at_once and ARGV[3] == '0' then
  write()
  return false
end
if front and behind + 1 >= TICKETS_MAX then
  write()
  return {-2}
end
if front and not may_classify(take) then
  write()
  return {-4, SHARES_MAX}
end
-- What is known of the line may be older than what was given: the clock is above that.
local number = math.max(last + 1, now, floor)
if number > NUMBER_MAX then
  write()
  return {-3, number}
end
local ends = now + ttl
ticket = pack(number, ends, take, 0, body)
if front then
  put_behind(id, number, ends, take, ticket)
else
  front, first, of, latest = id, ticket, capacity, 0
end
last, latest, wanted, changed = number, math.max(latest, ends), wanted + take, true
if at_once then taken, edge = taken + take, number end
write()
-- It is the last one: what stands ahead of it is all the others, and need not be looked for.
return place_behind(ticket, wanted - take, behind)
