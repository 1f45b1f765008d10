-- ARGV: card, and in ms how long the key lives if the ticket is alone; then, where they differ from what
-- most want, 0 for who would not wait, and the floor.
-- Nobody is there: the ticket is the whole line.
if head and #head == 9 and not ARGV[4] then
  local number = struct.unpack('<d', head, 2) + 1
  if number <= 9007199254740991 then
    redis.call('SET', k, 'a' .. struct.pack('<d', number) .. ARGV[1], 'PX', ARGV[2])
    return number
  end
end
