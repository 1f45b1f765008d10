-- Uses: idle_life
-- The one ticket there is leaves, as its owner wants, who is known by its id and inbox: only its number is kept.
-- `now` is given where the ticket's life was so long that the number need not be kept for all of it.
-- A ticket whose life has just ended is still known here: nobody came after it.
local function leave_alone(k, head, who, now)
  if not head or string.sub(head, 9, 41) ~= who then return end
  local number, kept = string.sub(head, 1, 8), nil
  if now then
    kept = redis.pcall('SET', k, number, 'PX', idle_life(number, now))
  else
    kept = redis.pcall('SET', k, number, 'KEEPTTL')
  end
  if kept.ok then return 2 end
end
