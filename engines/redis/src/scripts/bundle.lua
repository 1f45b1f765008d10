-- Many lines where nobody waits. ARGV: for each of them a sign of the verb, its card or its id and inbox, and how
-- long the key lives. What is not answered (false) has to be asked for by itself.
local answers = {}
for at, k in ipairs(KEYS) do
  local sign, what, life = ARGV[at * 3 - 2], ARGV[at * 3 - 1], ARGV[at * 3]
  local quick = sign == 'J' and join_idle or sign == 'L' and leave_alone or renew_alone
  local head = redis.pcall('GET', k)
  answers[at] = type(head) ~= 'table' and quick(k, head, what, life) or false
end
return answers
