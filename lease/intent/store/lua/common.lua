-- common.lua stands before the other scripts of the store (it concatenates them): names of keys, Redis' time, and the one
-- way in which a session ends.
--
-- ARGV[3]  prefix of all keys
-- ARGV[4]  ms that the record of an ended session is kept
--
-- Redis does not undo what a script has written when a later command of it fails (a key of another type, a user who may not).
-- So in every script what can fail comes before what a client or a worker goes by: the record's state and the idempotency key.
-- What is left of one that failed in between is harmless, and the same call, made again, does the rest.
--
-- KEYS[1], ARGV[1] and ARGV[2] are those of epoch.lua (internal/redisstore), where that is part of a script.
local prefix, retention = ARGV[3], tonumber(ARGV[4])
local group = 'workers'
local bus, dead, index, ended = prefix .. 'bus', prefix .. 'dead', prefix .. 'sessions', prefix .. 'ended'
local waiting, stops, workers, info = prefix .. 'waiting', prefix .. 'stops', prefix .. 'workers', prefix .. 'worker:info'
local clock = redis.call('TIME')
local ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
local stamp = string.format('%.0f', ms)
local forgotten = string.format('%.0f', ms - retention) -- what ended then or before has been kept for long enough
local function record(id) return prefix .. 'session:' .. id end
-- soft is a call for which a key of another type, which is a foreign hand's, is one that is not there: nil. It is for keys that are
-- one session's, or can be done without.
local function soft(...)
  local r = redis.pcall(...)
  if type(r) ~= 'table' or not r.err then return r end
  if not string.find(r.err, 'WRONGTYPE', 1, true) then redis.call(...) end -- to fail as it did
end
local function fields(id, ...) return soft('HMGET', record(id), ...) or {} end
-- grant is what phase 1 adds to a start that is accepted (lease.lua).
local grant = function() end
local function owned(worker) return prefix .. 'owned:' .. worker end
-- at is what the entry of that number says, {} where none is on the bus, and nil where it is another session's: a number alone does not
-- tell whose it is, for a bus that was made anew, or another server with a clock of its own, may number a start as another was.
local function at(entry, session)
  local got = redis.pcall('XRANGE', bus, entry, entry)[1]
  local said, named = got and got[2] or {}, got and '' or session
  for i = 1, #said, 2 do
    if said[i] == 'session' then named = said[i + 1] end -- the last one counts, as where entries are read
  end
  if named ~= session then return nil end
  return said
end
-- settled are the states of a session of which no entry is anybody's to do: the write that says so takes its entry off the bus.
local settled = {RUNNING = true, ENDED = true}
-- done takes a session's entry off the bus. One that stays there is told again, and found done with.
local function done(entry, session)
  if entry ~= '' and at(entry, session) then
    redis.pcall('XACK', bus, group, entry)
    redis.pcall('XDEL', bus, entry)
  end
end
-- start puts a start on the bus. Who is in waiting has an entry there, or sweep.lua gives it a new one.
local function start(id, service, profile, at)
  local entry = redis.call('XADD', bus, '*', 'type', 'start', 'session', id, 'service', service, 'profile', profile, 'start', at)
  redis.call('ZADD', waiting, stamp, id)
  return entry
end
-- finish ends a session: its key answers for nothing any more, and what ended long ago is forgotten, three for each one
-- that ends, so that the number of records stays bounded without a sweep.
local function finish(id, key, owner, reason, detail)
  if owner then redis.call('ZREM', owned(owner), id) end
  soft('SREM', stops, id)
  redis.call('ZREM', waiting, id)
  soft('ZADD', ended, stamp, id)
  redis.call('HSET', record(id), 'state', 'ENDED', 'reason', reason, 'detail', detail, 'updated', stamp)
  redis.call('HDEL', record(id), 'stop')
  if key and redis.pcall('GET', prefix .. 'idem:' .. key) == id then redis.call('DEL', prefix .. 'idem:' .. key) end
  for _, old in ipairs(soft('ZRANGEBYSCORE', ended, '-inf', forgotten, 'LIMIT', 0, 3) or {}) do
    redis.call('ZREM', index, old)
    redis.call('DEL', record(old))
    redis.call('ZREM', ended, old)
  end
end
