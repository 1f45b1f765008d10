-- Uses: be_master, is_readable, look, now
-- The lines with tickets, among some of the server's keys. ARGV: a cursor, the pattern of the names of heads, and
-- the number of keys to go through. Answers the next cursor, the visible part of one ticket of each line, and the
-- names of heads that this server could not read: those of a slot that is being moved here. A head of another
-- version does not contain its key, and is left out.
be_master()
local step = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local seen, elsewhere = {}, {}
for _, k in ipairs(step[2]) do
  local head = redis.pcall('GET', k)
  if type(head) == 'table' then
    if not string.find(head.err, 'WRONGTYPE', 1, true) then elsewhere[#elsewhere + 1] = k end
  elseif head and is_readable(head) then
    local known, ticket = pcall(look, k, head, now)
    if not known then
      elsewhere[#elsewhere + 1] = k
    elseif ticket then
      seen[#seen + 1] = ticket
    end
  end
end
return {step[1], seen, elsewhere}
