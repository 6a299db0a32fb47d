-- bootstrap.lua ends the quarantine of a first deployment. It stands alone, without epoch.lua.
--
-- KEYS[1]  the epoch key
-- ARGV[1]  what it held before the caller looked for leases and heartbeats, "" for nothing
-- returns 1 when the present run of Redis now has an epoch without quarantine, 0 when the key changed meanwhile
local epoch = redis.call('GET', KEYS[1]) or ''
if epoch ~= ARGV[1] then return 0 end
local time = redis.call('TIME')
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or '?'
local known_run, quarantine_end = string.match(epoch, '^(%S+) (%d+)$')
local now = time[1] * 1000000 + time[2]
if known_run == run and tonumber(quarantine_end) <= now then return 1 end
redis.call('SET', KEYS[1], run .. ' ' .. string.format('%.0f', now))
return 1
