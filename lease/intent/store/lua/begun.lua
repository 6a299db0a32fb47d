-- begun.lua tells which sessions a worker has begun and not ended, by the records.
--
-- ARGV[5]  worker
local begun = owned(ARGV[5])
return ids(redis.call('ZRANGE', begun, 0, -1), begun)
