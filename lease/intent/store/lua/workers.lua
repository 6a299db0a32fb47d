-- workers.lua reads the registry.
--
-- returns {Redis' time in ms, {worker, its last beat, its description}, …}
local reply = {stamp}
for _, worker in ipairs(redis.call('ZRANGE', workers, 0, -1)) do
  reply[#reply + 1] = {worker, redis.call('ZSCORE', workers, worker), redis.call('HGET', info, worker) or ''}
end
return reply
