-- A master that was made a replica goes on answering those who stay connected to it. What it answers without a
-- write is then what another server lets it know, and when. A write it refuses by itself.
local function be_master()
  local info = redis.pcall('INFO', 'replication')
  if type(info) == 'string' and string.find(info, 'role:slave', 1, true) then
    error('this server is a replica now')
  end
end
