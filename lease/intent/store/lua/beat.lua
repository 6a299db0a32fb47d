-- beat.lua keeps a worker alive in the registry.
--
-- ARGV[5]  worker
-- ARGV[6]  what describes it, JSON
-- returns {sessions that it has begun, run of the server, and of all workers those whose stop was asked and has not taken effect …}
redis.call('ZADD', workers, stamp, ARGV[5])
redis.call('HSET', info, ARGV[5], ARGV[6])
local reply = redis.call('SMEMBERS', stops)
local server = redis.pcall('INFO', 'server')
table.insert(reply, 1, type(server) == 'string' and string.match(server, 'run_id:(%w+)') or '?')
table.insert(reply, 1, redis.call('ZCARD', owned(ARGV[5])))
return reply
