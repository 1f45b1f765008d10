-- The server's clock, in microseconds since 1970. A script reads it once at most.
local now
local function clock()
  if not now then
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
  end
  return now
end
