-- delete.lua deletes leases of any holder, unless another worker has signed on or beaten since the caller read the registry. Such a worker
-- may hold any of them. Checked and deleted in two steps, they could be a later worker's (I1).
--
-- ARGV[5]  worker that deletes
-- ARGV[6]  number of other workers in the registry
-- ARGV[7]  each of these, and its last beat; then the leases
-- returns the number of deleted leases, or the worker that has beaten
local beats, first = {}, 7 + 2 * ARGV[6]
for i = 7, first - 1, 2 do beats[ARGV[i]] = tonumber(ARGV[i + 1]) end
for _, worker in ipairs(redis.call('ZRANGE', workers, 0, -1)) do
  if worker ~= ARGV[5] and tonumber(redis.call('ZSCORE', workers, worker)) ~= beats[worker] then return worker end
end
local n = 0
for i = first, #ARGV do n = n + redis.call('DEL', ARGV[i]) end
return n
