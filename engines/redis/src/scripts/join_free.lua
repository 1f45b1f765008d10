-- Nobody is there: the one ticket is the whole line.
if head and #head == 8 then
  local ttl = tonumber(ARGV[4])
  local number = math.max(struct.unpack('<d', head) + 1, now, tonumber(ARGV[6]))
  if number <= 9007199254740991 then
    local take, ends = tonumber(ARGV[2]), now + ttl
    redis.call('SET', k, struct.pack('<dddddddI4I4I4B', number, number, 9007199254740991, ends, 0, take, take, ARGV[3], 0, 0, 0)
      .. id .. struct.pack('<ddI4B', number, ends, take, 0) .. ARGV[7], 'PX', math.floor((ttl + KEEP) / 1000))
    return number
  end
end
