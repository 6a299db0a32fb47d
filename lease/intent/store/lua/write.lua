-- write.lua writes a session's state under a fence. It never overwrites the end, a higher fence, or a later state. It also removes the
-- session's entry from the bus.
--
-- ARGV[5]  session ID
-- ARGV[6]  state: STARTING, RUNNING or ENDED
-- ARGV[7]  fence
-- ARGV[8]  worker
-- ARGV[9]  entry to remove, "" for none
-- ARGV[10] tuner fence, "" for none
-- ARGV[11] slot
-- ARGV[12] reason
-- ARGV[13] detail
-- ARGV[14] service reference
-- ARGV[15] key of the lease on that service
-- returns 'K' if written, 'S' if written and a stop is pending, 'M' without such a session, 'O' if the session has ended, has a newer
-- term, or is another worker's to begin
local id, state, worker = ARGV[5], ARGV[6], ARGV[8]
local now = fields(id, 'state', 'fence', 'key', 'stop', 'owner', 'service', 'entry')
-- over reports whether another worker has taken over a start that does not run yet. The caller may have been frozen and counted as dead,
-- or its write may be late. If the caller has the lease on the service, no other worker can have it, so the start is the caller's.
local function over()
  local entry = now[7] or ''
  local pending = redis.pcall('XPENDING', bus, group, entry, entry, 1)[1]
  return pending and pending[2] ~= worker and redis.pcall('GET', ARGV[15]) ~= worker and at(entry, id)
end
if not now[1] or now[6] ~= ARGV[14] then return 'M' end
if now[1] == 'ENDED' then
  done(ARGV[9], id)
  return 'O'
end
if now[1] == 'RUNNING' and state == 'STARTING' then return 'O' end -- sent before RUNNING, and late
local known = tonumber(now[2] or 0) or 0 -- another program wrote a value that is no number
if known > tonumber(ARGV[7]) then return 'O' end
if now[1] ~= 'RUNNING' and over() then return 'O' end
if now[5] and now[5] ~= worker then redis.call('ZREM', owned(now[5]), id) end
if state ~= 'ENDED' then
  redis.call('ZADD', owned(worker), 0, id)
  redis.call('ZADD', workers, 'NX', stamp, worker) -- a swept worker will be swept again
end
if ARGV[10] ~= '' then
  redis.call('HSET', record(id), 'slot', ARGV[11], 'fence', ARGV[7], 'tunerFence', ARGV[10], 'owner', worker)
end
if state == 'ENDED' then
  finish(id, now[3], worker, ARGV[12], ARGV[13])
  done(ARGV[9], id)
  return 'K'
end
if ARGV[9] ~= '' then redis.call('ZREM', waiting, id) end
redis.call('HSET', record(id), 'state', state, 'updated', stamp)
if state == 'RUNNING' and now[3] and redis.pcall('GET', prefix .. 'idem:' .. now[3]) == id then
  redis.call('PERSIST', prefix .. 'idem:' .. now[3]) -- a running session keeps its key
end
done(ARGV[9], id)
return now[4] and 'S' or 'K'
