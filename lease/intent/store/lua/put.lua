-- put.lua accepts a start: record, idempotency key and entry on the bus, or none of them (guarantee I2).
--
-- ARGV[5]  session ID
-- ARGV[6]  service reference
-- ARGV[7]  profile
-- ARGV[8]  start time, ms
-- ARGV[9]  idempotency key
-- ARGV[10] life of the key while nobody has started the session, ms
-- returns {'N', id} for a new session, {'E', id} for the one that the key stands for
local id, key = ARGV[5], prefix .. 'idem:' .. ARGV[9]
local present = redis.call('GET', key)
if present == id then return {'N', id} end -- this very call, sent a second time
if present then
  local state = redis.call('HGET', record(present), 'state')
  if state and state ~= 'ENDED' then return {'E', present} end
end
redis.call('SET', key, id, 'PX', ARGV[10])
redis.call('HSET', record(id), 'id', id, 'service', ARGV[6], 'profile', ARGV[7], 'start', ARGV[8], 'key', ARGV[9],
  'state', 'NEW', 'created', stamp, 'updated', stamp)
redis.call('ZADD', index, 0, id)
redis.call('XADD', bus, '*', 'type', 'start', 'session', id, 'service', ARGV[6], 'profile', ARGV[7], 'start', ARGV[8])
return {'N', id}
