local KEEP_MS, NEAR, TICKETS_MAX, NUMBER_MAX = 3600000, 3, 16384, 9007199254740991
-- As text it need not be written out as a number each time.
local KEEP = '3600000'
