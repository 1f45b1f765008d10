local KEEP, NEAR, TICKETS_MAX = 3600000000, 3, 16384
local k, id = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local head = redis.call('GET', k)
