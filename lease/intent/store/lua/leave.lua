-- leave.lua declares a worker dead: the caller when it stops, or one whose process is known to have ended. The next sweep cleans up after
-- it.
--
-- ARGV[5]  worker
-- ARGV[6]  channel
redis.call('ZADD', workers, 'XX', '0', ARGV[5])
redis.pcall('PUBLISH', ARGV[6], 'left ' .. ARGV[5])
return 1
