-- beat.lua keeps a worker alive in the registry. It sets recorded times in the future to now. They exist if Redis' clock was set back, or
-- another server's clock is behind. Until the clock caught up, no worker would be dead, no start late, and no record forgotten.
--
-- ARGV[5]  worker
-- ARGV[6]  its description, JSON
-- returns {number of sessions that it has begun, run of the server, keys of another type, session …}. The sessions are those of all
-- workers with a pending stop. If the set of stops has another type, they are those of this worker, according to their records.
for _, times in ipairs({workers, waiting, ended}) do
  for _, member in ipairs(soft('ZRANGEBYSCORE', times, '(' .. stamp, '+inf', 'LIMIT', 0, 100) or {}) do
    redis.call('ZADD', times, stamp, member)
  end
end
redis.call('ZADD', workers, stamp, ARGV[5])
redis.call('HSET', info, ARGV[5], ARGV[6])
local foreign, reply = {}, soft('SMEMBERS', stops)
if not reply then
  foreign, reply = {stops}, {}
  for _, id in ipairs(redis.call('ZRANGE', owned(ARGV[5]), 0, -1)) do
    if fields(id, 'stop')[1] then reply[#reply + 1] = id end
  end
end
if not soft('ZCARD', ended) then foreign[#foreign + 1] = ended end
if not soft('XRANGE', dead, '0-0', '0-0') then foreign[#foreign + 1] = dead end
table.insert(reply, 1, table.concat(foreign, ' '))
local server = redis.pcall('INFO', 'server')
table.insert(reply, 1, type(server) == 'string' and string.match(server, 'run_id:(%w+)') or '?')
table.insert(reply, 1, redis.call('ZCARD', owned(ARGV[5])))
return reply
