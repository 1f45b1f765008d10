-- ARGV: id, 1 to tell it or 0 to take it out, the inbox of whoever asks, and `full` where the server
-- has said that its memory is: it lets a script go on that has begun with a step that frees some.
if ARGV[4] == 'full' then redis.call('DEL', k .. ':none') end
if not head or #head == 8 then return 0 end
-- The one ticket there is leaves, as its owner wants: only the last number is kept.
if string.sub(head, 70, 85) == id and string.sub(head, 61, 64) == '\0\0\0\0' and ARGV[2] == '0'
  and string.sub(head, 107, 122) == ARGV[3] and struct.unpack('<d', head, 94) > now then
  redis.call('SET', k, string.sub(head, 1, 8), 'PX', KEEP / 1000)
  return 2
end
