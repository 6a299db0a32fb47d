-- disown.lua ends sessions that run at a worker by their records, and do not run there. What has no record any more, or is another's by it,
-- would count as begun here for ever.
--
-- ARGV[5]  worker
-- ARGV[6]  session ID, and so on
-- returns how many have ended
local n = 0
for i = 6, #ARGV do
  redis.call('ZREM', owned(ARGV[5]), ARGV[i]) -- what is begun here meanwhile comes back when it is written that it runs
  local r = fields(ARGV[i], 'state', 'key', 'owner')
  if r[1] == 'RUNNING' and r[3] == ARGV[5] then
    finish(ARGV[i], r[2], ARGV[5], 'R_LEASE_LOST', 'its worker does not run it')
    n = n + 1
  end
end
return n
