-- requeue.lua puts a dead letter back on the bus. Its session begins anew, under a fence above all earlier ones on its service, so that
-- late writes of earlier workers change nothing.
--
-- ARGV[5]  dead letter
-- ARGV[6]  life of the idempotency key, ms
-- ARGV[7]  part of a service's fence key before the service reference
-- ARGV[8]  part after it
-- returns {'K', session}; {'0', ''} without such a letter; {'M', session} if its session has no record; {'B', session} if another
-- session has its key; {'L', session} if its session has not ended
local got = redis.call('XRANGE', dead, ARGV[5], ARGV[5])
if not got[1] then return {'0', ''} end
local f = {}
for i = 1, #got[1][2], 2 do f[got[1][2][i]] = got[1][2][i + 1] end
local id = f.session or ''
local r = fields(id, 'state', 'key', 'service', 'profile', 'start', 'fence')
if not r[1] or not r[2] then return {'M', id} end
if r[1] ~= 'ENDED' then return {'L', id} end
local key = prefix .. 'idem:' .. r[2]
local present = soft('GET', key)
if present and present ~= id then return {'B', present} end
local entry = start(id, r[3], r[4], r[5])
soft('ZREM', ended, id)
redis.call('SET', key, id, 'PX', ARGV[6])
local last = tonumber(redis.pcall('GET', ARGV[7] .. r[3] .. ARGV[8])) or 0
if last >= 9007199254740992 then last = 0 end -- another program's: no grant could exceed it
local fence = string.format('%.0f', math.max(tonumber(r[6] or 0) or 0, last) + 1)
redis.call('HSET', record(id), 'state', 'NEW', 'updated', stamp, 'entry', entry, 'fence', fence)
redis.call('HDEL', record(id), 'reason', 'detail', 'stop', 'slot', 'owner', 'tunerFence')
redis.call('XDEL', dead, ARGV[5])
return {'K', id}
