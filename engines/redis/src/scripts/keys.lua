-- Uses: be_master, is_readable, look, now
-- The lines with tickets, among some of the server's keys. ARGV: a cursor, the pattern of the names of heads, and
-- the number of keys to go through. Answers the next cursor, the name of each line with the visible part
-- of one of its tickets, the names of heads that this server could not read: those of a slot that is being moved
-- here, and the names of unreadable heads. A head of another version does not contain its key.
be_master()
local step = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local seen, elsewhere, unreadable = {}, {}, {}
for _, k in ipairs(step[2]) do
  local head = redis.pcall('GET', k)
  if type(head) == 'table' then
    local list = string.find(head.err, 'WRONGTYPE', 1, true) and unreadable or elsewhere
    list[#list + 1] = k
  elseif head and not is_readable(head) then
    unreadable[#unreadable + 1] = k
  elseif head then
    local known, ticket = pcall(look, k, head, now)
    if not known then
      elsewhere[#elsewhere + 1] = k
    elseif ticket then
      seen[#seen + 1] = {k, ticket}
    end
  end
end
return {step[1], seen, elsewhere, unreadable}
