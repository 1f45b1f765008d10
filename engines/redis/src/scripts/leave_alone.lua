-- The one ticket there is leaves, as its owner wants, who is known by its id and inbox: only its number is kept.
local function leave_alone(k, head, who)
  if not head or #head == 9 then return 0 end
  if string.sub(head, 1, 1) == 'a' and string.sub(head, 18, 49) == who and redis.call('PTTL', k) > KEEP_MS
    and not redis.pcall('SET', k, 'i' .. string.sub(head, 2, 9), 'PX', KEEP).err then
    return 2
  end
end
