local k = KEYS[1]
local head = redis.call('GET', k)
