-- sweep.lua cleans up after dead workers: it ends their running sessions, and delivers their unfinished entries to the caller. It delivers
-- entries again whose first answer the caller did not get, and removes those of settled sessions. It publishes a start again whose entry
-- another program has removed (I3). One call does a bounded amount of work.
--
-- ARGV[5]  worker that sweeps
-- ARGV[6]  ms after its last beat at which a worker is dead
-- ARGV[7]  most sessions to end and entries to deliver
-- ARGV[8]  ms after a delivery to the caller at which an entry is delivered again
-- ARGV[9]  prefix of the leases on services
-- returns {1 if there is more to do, entry, entry, …}, where an entry is
--   {id, deliveries, its previous worker or '', type, session, service, owner in the record, fence in the record, profile, start}
local me, limit = ARGV[5], tonumber(ARGV[7])
local reply, more = {0}, false
-- A server that has just started may have an older copy of the registry, or another clock. Every registered worker then has a whole life
-- from the first sweep on, unless it has signed off (a beat at 0). The same holds after the clock was set back (beat.lua).
local server = redis.pcall('INFO', 'server')
local run = type(server) == 'string' and string.match(server, 'run_id:(%w+)') or '?'
local known, since = string.match(soft('GET', prefix .. 'run') or '', '^(%S+) (%d+)$')
if known ~= run or tonumber(since) > ms then
  since = stamp
  redis.call('SET', prefix .. 'run', run .. ' ' .. stamp)
end
local function alive(worker)
  local beat = tonumber(redis.call('ZSCORE', workers, worker) or 0)
  return beat > 0 and math.max(beat, tonumber(since)) + tonumber(ARGV[6]) > ms
end
-- An older copy of the data, or another program, may bring back the entry of a settled session.
local function tell(entry, tries, from, said)
  local f = {}
  for i = 1, #said, 2 do f[said[i]] = said[i + 1] end
  local r = fields(f.session or '', 'owner', 'fence', 'state')
  if settled[r[3]] then return done(entry, f.session or '') end
  reply[#reply + 1] = {entry, tries, from, f.type or '', f.session or '', f.service or '', r[1] or '', r[2] or '0',
    f.profile or '', f.start or ''}
end
local function take(worker)
  local pending
  if worker == me then
    pending = redis.call('XPENDING', bus, group, 'IDLE', ARGV[8], '-', '+', limit, me)
  else
    pending = redis.call('XPENDING', bus, group, '-', '+', limit, worker)
  end
  for _, p in ipairs(pending) do
    local got
    if worker == me then
      got = redis.call('XRANGE', bus, p[1], p[1])
    else
      got = redis.call('XCLAIM', bus, group, me, 0, p[1])
      p[4] = p[4] + 1
    end
    if got[1] and got[1][2] then
      tell(p[1], p[4], worker == me and '' or worker, got[1][2])
    else
      redis.call('XACK', bus, group, p[1]) -- deleted by another program
    end
  end
  if worker ~= me and #pending == limit then more = true end
  return #pending
end
-- A Redis without memory refuses beats but renews leases. So a session of a worker without beats runs while it has its lease.
local function bury(worker)
  local sessions, kept = soft('ZRANGE', owned(worker), 0, limit - 1) or {}, 0
  for _, id in ipairs(sessions) do
    local r = fields(id, 'state', 'key', 'owner', 'service')
    if r[1] ~= 'RUNNING' or r[3] ~= worker then
      redis.call('ZREM', owned(worker), id)
    elseif redis.pcall('GET', ARGV[9] .. (r[4] or '')) == worker then
      kept = kept + 1
    else
      finish(id, r[2], worker, 'R_LEASE_LOST', 'its worker is gone')
    end
  end
  if #sessions == limit and kept < limit then more = true end
end
local groups = redis.call('EXISTS', bus) == 1 and redis.call('XINFO', 'GROUPS', bus) or {}
local consumers = {}
if #groups > 0 then
  consumers = redis.call('XPENDING', bus, group)[4] or {}
end
for _, c in ipairs(consumers) do
  if c[1] == me or not alive(c[1]) then take(c[1]) end
end
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', workers, '-inf', '(' .. string.format('%.0f', ms - ARGV[6] + 1), 'LIMIT', 0, 10)) do
  if worker ~= me and not alive(worker) then
    bury(worker)
    local left = #groups > 0 and redis.call('XPENDING', bus, group, '-', '+', 1, worker) or {}
    if #left == 0 and (soft('ZCARD', owned(worker)) or 0) == 0 then
      if #groups > 0 then redis.call('XGROUP', 'DELCONSUMER', bus, group, worker) end
      redis.call('ZREM', workers, worker)
      redis.call('HDEL', info, worker)
    end
  end
end
local function published(id, entry)
  local said = at(entry, id)
  return said and said[1]
end
-- revive checks a waiting session once per life. Without a worker and an entry, it would wait forever.
local function revive(id)
  local r = fields(id, 'state', 'entry', 'owner', 'stop', 'service', 'profile', 'start', 'key')
  if not r[1] or settled[r[1]] or (r[2] or '') == '' or not (r[5] and r[6] and r[7]) then
    redis.call('ZREM', waiting, id)
    return
  end
  redis.call('ZADD', waiting, stamp, id)
  if published(id, r[2]) or r[3] and alive(r[3]) then return end
  if r[4] then
    finish(id, r[8], r[3], 'R_STOPPED', 'stopped before it ran')
  else
    redis.call('HSET', record(id), 'entry', start(id, r[5], r[6], r[7]))
  end
end
local unseen = redis.call('ZRANGEBYSCORE', waiting, '-inf', string.format('%.0f', ms - ARGV[6]), 'LIMIT', 0, limit)
for _, id in ipairs(unseen) do revive(id) end
if #unseen == limit then more = true end
if more then reply[1] = 1 end
return reply
