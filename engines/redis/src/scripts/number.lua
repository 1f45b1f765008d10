-- Whether what is kept is a number as Redis writes it. Redis adds to no other: a zero ahead of it, and it is none.
local function is_number(kept)
  return kept == '0' or string.find(kept, '^[1-9]%d*$') ~= nil and tonumber(kept) <= NUMBER_MAX
end
