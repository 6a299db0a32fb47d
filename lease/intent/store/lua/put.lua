-- put.lua accepts a start: record, idempotency key and entry on the bus, or none of them (I2). It writes the entry first, because this
-- fails without a stream or a free ID. An entry whose record could not be written becomes a dead letter.
--
-- ARGV[5]  session ID
-- ARGV[6]  service reference
-- ARGV[7]  profile
-- ARGV[8]  start time, ms
-- ARGV[9]  idempotency key
-- ARGV[10] life of the key until a worker starts the session, ms
-- returns {'N', id} for a new session, {'E', id} for the one that the key names
local id, key = ARGV[5], prefix .. 'idem:' .. ARGV[9]
local present = soft('GET', key)
if present == id then return {'N', id} end -- a repetition of this call
if present then
  local state = soft('HGET', record(present), 'state')
  if state and state ~= 'ENDED' then return {'E', present} end
end
local entry = start(id, ARGV[6], ARGV[7], ARGV[8])
grant()
redis.call('ZADD', index, 0, id)
redis.call('HSET', record(id), 'id', id, 'service', ARGV[6], 'profile', ARGV[7], 'start', ARGV[8], 'key', ARGV[9],
  'state', 'NEW', 'created', stamp, 'updated', stamp, 'entry', entry)
redis.call('SET', key, id, 'PX', ARGV[10])
return {'N', id}
