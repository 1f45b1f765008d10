local KEEP_MS, NEAR, TICKETS_MAX = 3600000, 3, 16384
local k = KEYS[1]
local head = redis.call('GET', k)
