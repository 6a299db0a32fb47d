-- disown.lua ends sessions that their records place at a worker that does not run them. It also removes sessions without a record, or of
-- another worker, from the worker's set, in which they would otherwise count as begun forever.
--
-- ARGV[5]  worker
-- ARGV[6…] session IDs
-- returns the number of ended sessions
local n = 0
for i = 6, #ARGV do
  redis.call('ZREM', owned(ARGV[5]), ARGV[i]) -- writing RUNNING adds a session that begins here meanwhile again
  local r = fields(ARGV[i], 'state', 'key', 'owner')
  if r[1] == 'RUNNING' and r[3] == ARGV[5] then
    finish(ARGV[i], r[2], ARGV[5], 'R_LEASE_LOST', 'its worker does not run it')
    n = n + 1
  end
end
return n
