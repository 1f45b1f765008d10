-- The one ticket there is leaves, as its owner wants, who is known by its id and inbox: only its number is kept.
local function leave_alone(k, head, who)
  if not head or #head == 9 then
    be_master()
    return 0
  end
  if string.byte(head) ~= ALONE or string.sub(head, 18, 49) ~= who then return end
  local left = redis.call('PTTL', k)
  if left <= KEEP_MS then return end
  local idle, kept = 'i' .. string.sub(head, 2, 9), nil
  -- That the number lives on for as long as the ticket would have costs less than a new time for it.
  if left <= 2 * KEEP_MS then
    kept = redis.pcall('SET', k, idle, 'KEEPTTL')
  else
    kept = redis.pcall('SET', k, idle, 'PX', idle_life(struct.unpack('<d', head, 2)))
  end
  if not kept.err then return 2 end
end
