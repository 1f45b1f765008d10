local KEEP_MS, NEAR, TICKETS_MAX, NUMBER_MAX = 3600000, 3, 16384, 9007199254740991
-- What the head of a line with one ticket in it begins with.
local ALONE = 97
