-- list.lua reads the IDs of sessions, newest first.
--
-- ARGV[5]  first ID, as for ZREVRANGEBYLEX
-- ARGV[6]  limit
return redis.call('ZREVRANGEBYLEX', index, ARGV[5], '-', 'LIMIT', 0, ARGV[6])
