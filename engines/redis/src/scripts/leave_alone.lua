-- ARGV: id, 1 to tell it or 0 to take it out, the inbox of whoever asks, and `full` where the server
-- has said that its memory is: it lets a script go on that has begun with a step that frees some.
if ARGV[4] == 'full' then redis.call('DEL', k .. ':none') end
if not head or #head == 9 then return 0 end
local id = ARGV[1]
-- The one ticket there is leaves, as its owner wants: only its number is kept.
if string.sub(head, 1, 1) == 'a' and string.sub(head, 18, 33) == id and string.sub(head, 34, 49) == ARGV[3]
  and ARGV[2] == '0' and redis.call('PTTL', k) > KEEP_MS then
  redis.call('SET', k, 'i' .. string.sub(head, 2, 9), 'PX', KEEP_MS)
  return 2
end
