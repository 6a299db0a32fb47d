-- probe.lua calls every command that the other scripts call, in a form that changes nothing, to find out what the user may not
-- do. It stands alone, without epoch.lua. The commands that write are refused for their syntax, after Redis has decided whether
-- they may run at all; one key is deleted only where it is not there.
--
-- KEYS     keys of leases, fences and heartbeats, the epoch key, and the group's record
-- ARGV[1]  channel
-- ARGV[2]  1: the caller looks
-- ARGV[3]  the epoch key, which is never deleted nor given an expiry
-- ARGV[4]  1: the caller has a heartbeat that is set by a script
-- ARGV[5]  the key of the group's record, a hash
-- returns command and error of each that Redis refused
local refused, probed = {}, {}
local function probe(command, ...)
  local reply = redis.pcall(command, ...)
  if type(reply) == 'table' and reply.err and not probed[command] then
    probed[command] = true
    refused[#refused + 1] = string.lower(command)
    refused[#refused + 1] = reply.err
  end
  return reply
end
probe('TIME')
local function probe_record(key)
  probe('HMGET', key, 'epoch')
  probe('HGET', key, 'epoch')
  probe('HSET', key, 'odd', 'number', 'of')
end
local function probe_string(key)
  local holder = probe('GET', key)
  probe('SET', key, '', 'NX', 'XX')
  if key ~= ARGV[3] then
    probe('PEXPIRE', key, '')
    probe('PTTL', key)
    if not holder then probe('DEL', key) end
    if ARGV[2] == '1' then probe('MGET', key) end
    if ARGV[4] == '1' then probe('EXISTS', key) end
  end
end
for _, key in ipairs(KEYS) do
  if key == ARGV[5] then
    probe_record(key)
  else
    probe_string(key)
  end
end
probe('PUBLISH', ARGV[1], 'probe')
return refused
