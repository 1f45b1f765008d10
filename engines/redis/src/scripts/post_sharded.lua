-- Uses: k
-- A client listens to one channel for each line it waits in, in the slot of that line.
local function post(inbox, message)
  redis.call('SPUBLISH', k .. ':' .. inbox, message)
end

-- While a slot is on its way to another server, part of a line may be here and part there. The server then
-- refuses to be asked for keys of which one is not here, and that ends a script before it has changed anything.
local function be_whole()
  redis.call('EXISTS', k .. ':l', k .. ':none')
end
