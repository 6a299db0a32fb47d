-- begun.lua returns the sessions that a worker has begun and not ended, according to the records.
--
-- ARGV[5]  worker
return redis.call('ZRANGE', owned(ARGV[5]), 0, -1)
