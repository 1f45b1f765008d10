-- The server's clock, in microseconds since 1970: a script reads it once.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
