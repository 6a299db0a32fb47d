-- stop.lua requests the end of a session. It notifies the session's worker. If the notice is lost, the worker learns of the stop with its
-- next beat; a worker that begins the session later learns of it with its first write.
--
-- ARGV[5]  session ID
-- ARGV[6]  channel
-- returns 'M' without such a session, 'E' if it has ended, otherwise 'S'
local state = soft('HGET', record(ARGV[5]), 'state')
if not state then return 'M' end
if state == 'ENDED' then return 'E' end
soft('SADD', stops, ARGV[5])
redis.call('HSET', record(ARGV[5]), 'stop', '1')
redis.pcall('PUBLISH', ARGV[6], 'stop ' .. ARGV[5])
return 'S'
