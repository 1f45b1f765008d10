-- Uses: NUMBER_MAX, be_master
-- Refuses what is kept, unless it is a number as Redis writes it. Redis adds to no other: a zero ahead of it, and it is none.
local function be_number(kept)
  if kept == '0' or string.find(kept, '^[1-9]%d*$') and tonumber(kept) <= NUMBER_MAX then return end
  be_master()
  error('tenure-no-number')
end
