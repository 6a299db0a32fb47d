-- beat.lua keeps a worker alive in the registry. Where Redis' clock was set back, or another server has another, times to come that it has
-- told are now: until it had caught up nobody would be dead, nothing late, and no record forgotten.
--
-- ARGV[5]  worker
-- ARGV[6]  what describes it, JSON
-- returns {sessions that it has begun, run of the server, keys of another type, session …}: of all workers those whose stop was asked
-- and has not taken effect, and where their set is of another type, those of this worker, by their records
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
