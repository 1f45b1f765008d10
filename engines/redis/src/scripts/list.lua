-- Uses: be_master, behind, first, front, k, now, of, read
-- The whole line: now, the capacity, then ids and tickets in turn, those whose life has ended as well: whoever
-- looks changes nothing, and so is not refused by a server that takes no writes.
be_master()
read()
local list = {now, of}
if front then
  list[3], list[4] = front, first
  local ids = behind > 0 and redis.call('ZRANGE', k .. ':l', 0, -1) or {}
  for from = 1, #ids, 1000 do
    local some = {unpack(ids, from, math.min(from + 999, #ids))}
    for at, ticket in ipairs(redis.call('HMGET', k .. ':t', unpack(some))) do
      if ticket then list[#list + 1], list[#list + 2] = some[at], ticket end
    end
  end
end
return list
