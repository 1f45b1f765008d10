-- What stands before every guarded script, in the same atomic step. The last of KEYS is the fence's
-- own, the last of ARGV the token, and the one before it how long the fence is kept, in ms, if not
-- for ever. What follows sees none of the three. Each line of this must be able to end in a space.
local tenure
do
  local fence, token, life = table.remove(KEYS), table.remove(ARGV), table.remove(ARGV)
  local seen = redis.pcall('GET', fence)
  if type(seen) == 'table' then return {2, seen.err} end
  if seen and not string.find(seen, '^%d+$') then return {3} end
  -- Numbers, not texts: '9' is not above '10', and up to 2^53 - 1 every one of them is exact.
  local mine, newest = tonumber(token), tonumber(seen or 0)
  if newest > 9007199254740991 then return {3} end
  if mine < newest then return {0, seen} end
  if mine > newest then
    -- The token comes before the write: a script that fails midway is not taken back, and must not
    -- leave the door open. As the first write of all it is also the one that a full or a read-only
    -- server refuses, with nothing changed.
    if life == '' then redis.call('SET', fence, token) else redis.call('SET', fence, token, 'PX', life) end
  end
  tenure = function(answer)
    -- Only now, and only if it can be: a write ahead of the others would switch off the server's
    -- own check of its memory for them.
    if life ~= '' then redis.pcall('PEXPIRE', fence, life) end
    return {1, answer}
  end
end
