-- In a cluster, a replica sends everybody to its master.
local function be_master() end
