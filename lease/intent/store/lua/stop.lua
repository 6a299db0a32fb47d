-- stop.lua asks for the end of a session. The worker that has it hears of it at once; one that missed it reads it with its
-- next beat; one that takes the session later is told when it first writes.
--
-- ARGV[5]  session ID
-- ARGV[6]  channel
-- returns 'M' when there is no such session, 'E' when it has ended, else 'S'
local state = soft('HGET', record(ARGV[5]), 'state')
if not state then return 'M' end
if state == 'ENDED' then return 'E' end
soft('SADD', stops, ARGV[5])
redis.call('HSET', record(ARGV[5]), 'stop', '1')
redis.pcall('PUBLISH', ARGV[6], 'stop ' .. ARGV[5])
return 'S'
