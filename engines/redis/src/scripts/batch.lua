-- Uses: JOIN, LEAVE, join_idle, leave_alone, now, renew_alone
-- A batch of verbs for lines where nobody waits. ARGV: a tag for each verb; then, for each of them, its card, or its id and inbox, and
-- how long the key lives (for a leave: `long` where the ticket lived for long).
-- What is not answered (false) has to be asked for by itself.
local heads, answers, changed = redis.call('MGET', unpack(KEYS)), {}, {}
for at, k in ipairs(KEYS) do
  local tag, what, life, answer = string.byte(ARGV[1], at), ARGV[at * 2], ARGV[at * 2 + 1], nil
  if changed[k] then
    -- Another verb of this batch was for the same line.
    answer = false
  elseif tag == JOIN then
    answer = join_idle(k, heads[at], what, life, now)
  elseif tag == LEAVE then
    answer = leave_alone(k, heads[at], what, life == 'long' and now)
  else
    answer = renew_alone(k, heads[at], what, life)
  end
  answers[at], changed[k] = answer or false, true
end
return answers
