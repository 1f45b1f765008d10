-- Precedes every guarded script, in the same atomic step. The last of KEYS is the key of the fence.
-- The last of ARGV is the token; before it is the time to live of the fence in ms, or an empty string
-- for ever. The user's script sees none of the three. Each line must be able to end in a space.
local tenure
do
  local fence, token, life = table.remove(KEYS), table.remove(ARGV), table.remove(ARGV)
  local seen = redis.pcall('GET', fence)
  if type(seen) == 'table' then return {2, seen.err} end
  if seen and not string.find(seen, '^%d+$') then return {3} end
  -- Numbers, not strings: '9' is not above '10'. Numbers are exact up to 2^53 - 1.
  local mine, newest = tonumber(token), tonumber(seen or 0)
  if newest > 9007199254740991 then return {3} end
  if mine < newest then return {0, seen} end
  if mine > newest then
    -- Raise the token before the write: a script that fails midway is not rolled back, and older
    -- holders must stay out. This is also the first write of all: a full or read-only server refuses
    -- it, and nothing is changed.
    if life == '' then redis.call('SET', fence, token) else redis.call('SET', fence, token, 'PX', life) end
  end
  tenure = function(answer)
    -- Renew the time to live last, and ignore an error. As the first write it would switch off the
    -- server's check of its memory for the writes of the script.
    if life ~= '' then redis.pcall('PEXPIRE', fence, life) end
    return {1, answer}
  end
end
