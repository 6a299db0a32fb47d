-- disown.lua ends sessions that run at a worker by their records, and do not run there.
--
-- ARGV[5]  worker
-- ARGV[6]  session ID, and so on
-- returns how many have ended
local n = 0
for i = 6, #ARGV do
  local r = fields(ARGV[i], 'state', 'key', 'owner')
  if r[1] == 'RUNNING' and r[3] == ARGV[5] then
    finish(ARGV[i], r[2], ARGV[5], 'R_LEASE_LOST', 'its worker does not run it')
    n = n + 1
  end
end
return n
