-- Uses: k
-- Every client listens to one channel, whose name begins as that of every key does.
local function post(inbox, message)
  redis.call('PUBLISH', string.match(k, '^[^{]*') .. 'inbox:' .. inbox, message)
end

-- All of a line is on one server.
local function be_whole() end
