-- bootstrap.lua ends the quarantine of a first deployment. It follows life.lua, without epoch.lua.
--
-- KEYS[1]  the epoch key
-- KEYS[2]  the group's record
-- ARGV[1]  the epoch before the caller searched for leases and heartbeats, "" for none
-- ARGV[2]  length of the group's quarantine, µs
-- ARGV[3]  how many replicas must acknowledge the caller's writes
-- returns 1 if the current run of Redis now has an epoch without quarantine, 0 if the epoch changed meanwhile
local epoch = redis.call('GET', KEYS[1]) or ''
if epoch ~= ARGV[1] then return 0 end
local time = redis.call('TIME')
local run = life(tonumber(ARGV[3]))
if not run then return redis.error_reply(no_life) end
local known_run, quarantine_end = string.match(epoch, '^(%S+) (%d+)$')
local now = time[1] * 1000000 + time[2]
if known_run == run and tonumber(quarantine_end) <= now and redis.call('HGET', KEYS[2], 'epoch') == epoch then return 1 end
local next = run .. ' ' .. string.format('%.0f', now)
redis.call('HSET', KEYS[2], 'epoch', next, 'quarantine', ARGV[2])
redis.call('SET', KEYS[1], next)
return 1
