-- ARGV: id, share, capacity, ttl, 1 to wait or 0, floor, body.
read(head)
local take, capacity, ttl = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local floor, body = tonumber(ARGV[6]), ARGV[7]
expire()
local ticket = find(id)
if ticket then
  local answer = renew(id, ticket, take, ttl, floor, body)
  write()
  return answer
end
if front and of ~= capacity then
  write()
  return {-1, of}
end
local at_once = wanted + take <= capacity
if not at_once and ARGV[5] == '0' then
  write()
  return false
end
if behind + 1 >= TICKETS_MAX then
  write()
  return {-2}
end
local number = math.max(last + 1, now, floor)
if number > NEVER then
  write()
  return {-3, number}
end
-- A head that was evicted may have left the others behind.
if not head then forget_behind() end
local ends = now + ttl
ticket = pack(number, ends, take, 0, body)
if front then
  put_behind(id, number, ends, take, ticket)
else
  front, first, of = id, ticket, capacity
  latest = 0
end
last, latest, wanted, changed = number, math.max(latest, ends), wanted + take, true
if at_once then taken, edge = taken + take, number end
write()
return place(id, ticket)
