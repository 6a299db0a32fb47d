-- list.lua reads the IDs of sessions, newest first.
--
-- ARGV[5]  where to begin, as ZREVRANGEBYLEX takes it
-- ARGV[6]  how many are read
return redis.call('ZREVRANGEBYLEX', index, ARGV[5], '-', 'LIMIT', 0, ARGV[6])
