-- The whole line: now, the edge, the capacity, then ids and tickets in turn.
read()
expire()
write()
local list = {now, edge, of}
if front then
  list[4], list[5] = front, first
  local ids = behind > 0 and redis.call('ZRANGE', k .. ':l', 0, -1) or {}
  for from = 1, #ids, 1000 do
    local some = {unpack(ids, from, math.min(from + 999, #ids))}
    for at, ticket in ipairs(redis.call('HMGET', k .. ':t', unpack(some))) do
      if ticket then list[#list + 1], list[#list + 2] = some[at], ticket end
    end
  end
end
return list
