-- ARGV: card, ttl, 1 to wait or 0, floor, and in ms how long the key lives if the ticket is alone.
-- Nobody is there: the ticket is the whole line.
if head and #head == 9 and ARGV[4] == '0' then
  local number = struct.unpack('<d', head, 2) + 1
  if number <= 9007199254740991 then
    redis.call('SET', k, 'a' .. struct.pack('<d', number) .. ARGV[1], 'PX', ARGV[5])
    return number
  end
end
