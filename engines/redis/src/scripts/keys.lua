-- The lines that somebody stands in, among some of the server's keys. ARGV: a cursor, what the names of heads are
-- like, and how many keys to go through. Answers the next cursor, what others may see of one ticket of each line,
-- the names of heads that this server could not ask for, those of a slot that is on its way here, and how many
-- microseconds all this took: none if that cannot be told. Since Redis 7.2, TIME stands still while a script runs; since 7.4
-- scripts have a clock of their own. What is no head of this version's does not tell of which key it is, and is left out.
be_master()
local clock = rawget(_G, 'os') and os.clock
local began = clock and clock()
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
local took
if clock then
  took = math.ceil((clock() - began) * 1000000)
else
  local ended = redis.call('TIME')
  took = ended[1] * 1000000 + ended[2] - now
end
return {step[1], seen, elsewhere, math.max(took, 0)}
