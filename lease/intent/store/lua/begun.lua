-- begun.lua tells which sessions a worker has begun and not ended, by the records.
--
-- ARGV[5]  worker
return redis.call('ZRANGE', owned(ARGV[5]), 0, -1)
