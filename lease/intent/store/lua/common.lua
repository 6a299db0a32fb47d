-- common.lua stands before the other scripts of the store (it concatenates them): names of keys, Redis' time, and the one
-- way in which a session ends.
--
-- ARGV[3]  prefix of all keys
-- ARGV[4]  ms that the record of an ended session is kept
--
-- KEYS[1], ARGV[1] and ARGV[2] are those of epoch.lua (lease/redisstore), where that is part of a script.
local prefix, retention = ARGV[3], tonumber(ARGV[4])
local group = 'workers'
local bus, index, ended = prefix .. 'bus', prefix .. 'sessions', prefix .. 'ended'
local stops, workers, info = prefix .. 'stops', prefix .. 'workers', prefix .. 'worker:info'
local clock = redis.call('TIME')
local ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
local stamp = string.format('%.0f', ms)
local function record(id) return prefix .. 'session:' .. id end
-- fields reads fields of a record. A key of another type is a foreign hand's, and a record without any.
local function fields(id, ...)
  local r = redis.pcall('HMGET', record(id), ...)
  return r.err and {} or r
end
local function owned(worker) return prefix .. 'owned:' .. worker end
local function done(entry)
  if entry ~= '' then
    redis.call('XACK', bus, group, entry)
    redis.call('XDEL', bus, entry)
  end
end
-- finish ends a session: its key answers for nothing any more, and what ended long ago is forgotten, three for each one
-- that ends, so that the number of records stays bounded without a sweep.
local function finish(id, key, owner, reason, detail)
  redis.call('HSET', record(id), 'state', 'ENDED', 'reason', reason, 'detail', detail, 'updated', stamp)
  redis.call('HDEL', record(id), 'stop')
  if owner then redis.call('ZREM', owned(owner), id) end
  redis.call('SREM', stops, id)
  if key and redis.call('GET', prefix .. 'idem:' .. key) == id then redis.call('DEL', prefix .. 'idem:' .. key) end
  redis.call('ZADD', ended, stamp, id)
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', ended, '-inf', string.format('%.0f', ms - retention), 'LIMIT', 0, 3)) do
    redis.call('DEL', record(old))
    redis.call('ZREM', ended, old)
    redis.call('ZREM', index, old)
  end
end
