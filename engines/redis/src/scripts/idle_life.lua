-- Uses: KEEP_MS
-- For how long in ms an idle line keeps this number, as it is packed: until the clock has long passed it, so that
-- neither a clock that is set back a little nor another server whose clock is behind gives a smaller one.
local function idle_life(number, now)
  return math.max(math.ceil((struct.unpack('<d', number) - now) / 1000), 0) + KEEP_MS
end
