-- done.lua records that the work under a lease is done, if the caller still holds the lease. Otherwise it could keep the next owner from
-- the work. It runs without epoch.lua because it grants nothing.
--
-- KEYS[1], KEYS[2]  lease and fence key
-- KEYS[3]  the record
-- ARGV[1], ARGV[2]  owner and fence
-- ARGV[3]  life of the record, ms
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[3], ARGV[2], 'PX', ARGV[3])
return 1
