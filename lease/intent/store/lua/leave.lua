-- leave.lua declares a worker dead: itself when it stops, or one that is known not to run any more. What it leaves behind
-- is dealt with by whoever sweeps next.
--
-- ARGV[5]  worker
-- ARGV[6]  channel
redis.call('ZADD', workers, 'XX', '0', ARGV[5])
redis.pcall('PUBLISH', ARGV[6], 'left ' .. ARGV[5])
return 1
