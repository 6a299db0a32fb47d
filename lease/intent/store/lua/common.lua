-- common.lua precedes the store's other scripts in one text. It has the names of keys, Redis' time, and the end of a session.
--
-- ARGV[3]  prefix of all keys
-- ARGV[4]  ms for which the record of an ended session is kept
--
-- If a command of a script fails, for example because of a key's type or a missing right, Redis keeps the script's earlier writes. So in
-- every script, the commands that can fail come before those that clients and workers rely on: the record's state and the idempotency
-- key. The remains of a failed script are harmless, and the same call, repeated, does the rest.
--
-- KEYS[1], ARGV[1] and ARGV[2] are those of epoch.lua (internal/redisstore) in scripts that include it.
local prefix, retention = ARGV[3], tonumber(ARGV[4])
local group = 'workers'
local bus, dead, index, ended = prefix .. 'bus', prefix .. 'dead', prefix .. 'sessions', prefix .. 'ended'
local waiting, stops, workers, info = prefix .. 'waiting', prefix .. 'stops', prefix .. 'workers', prefix .. 'worker:info'
local clock = redis.call('TIME')
local ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
local stamp = string.format('%.0f', ms)
local forgotten = string.format('%.0f', ms - retention) -- records of sessions that ended before are deleted
local function record(id) return prefix .. 'session:' .. id end
-- soft calls a command, and returns nil if another program has replaced the key by another type. It is for keys of one session, and
-- for keys that are not indispensable.
local function soft(...)
  local r = redis.pcall(...)
  if type(r) ~= 'table' or not r.err then return r end
  if not string.find(r.err, 'WRONGTYPE', 1, true) then redis.call(...) end -- fails with the same error
end
local function fields(id, ...) return soft('HMGET', record(id), ...) or {} end
-- grant grants the lease of an accepted start in phase 1 (lease.lua).
local grant = function() end
local function owned(worker) return prefix .. 'owned:' .. worker end
-- at returns the fields of an entry, {} if it is not on the bus, and nil if it is another session's: a new bus, or another server's
-- clock, may give an entry the number of an earlier one.
local function at(entry, session)
  local got = redis.pcall('XRANGE', bus, entry, entry)[1]
  local said, named = got and got[2] or {}, got and '' or session
  for i = 1, #said, 2 do
    if said[i] == 'session' then named = said[i + 1] end -- the last one counts, as for readers
  end
  if named ~= session then return nil end
  return said
end
-- settled states need no entry: the write of such a state removes the session's entry from the bus.
local settled = {RUNNING = true, ENDED = true}
-- done removes a session's entry from the bus. If this fails, the entry is delivered again, and then removed.
local function done(entry, session)
  if entry ~= '' and at(entry, session) then
    redis.pcall('XACK', bus, group, entry)
    redis.pcall('XDEL', bus, entry)
  end
end
-- start puts a start on the bus. If a session in waiting loses its entry, sweep.lua adds a new one.
local function start(id, service, profile, at)
  local entry = redis.call('XADD', bus, '*', 'type', 'start', 'session', id, 'service', service, 'profile', profile, 'start', at)
  redis.call('ZADD', waiting, stamp, id)
  return entry
end
-- finish ends a session and frees its key. It also deletes up to three old records of ended sessions, which bounds their number
-- without a sweep.
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
