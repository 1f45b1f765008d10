-- A client listens to one channel for each line it waits in, in the slot of that line.
local function post(inbox, message)
  redis.call('SPUBLISH', k .. ':' .. inbox, message)
end
