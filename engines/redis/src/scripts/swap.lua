-- Uses: be_master
-- A value that is replaced by a caller that has seen it. ARGV: the value that was seen, the new one. The empty text
-- is no value. Answers the value then.
local kept = redis.call('GET', KEYS[1]) or ''
-- A repeated call writes again: replicas acknowledge only a write of the connection that asks for it.
local is_repeated = kept == ARGV[2] and kept ~= ''
if ARGV[1] == ARGV[2] or kept ~= ARGV[1] and not is_repeated then
  be_master()
  return kept
end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2])
end
return ARGV[2]
