-- probe.lua calls every command of the other scripts in a form that changes nothing, to find missing rights. It runs without epoch.lua.
-- Redis checks the rights of a writing command before it refuses the command's syntax. DEL is called only for a missing key.
--
-- KEYS     keys of leases, fences and heartbeats, the epoch key, and the group's record
-- ARGV[1]  channel
-- ARGV[2]  1 if the caller runs discoveries
-- ARGV[3]  the epoch key, which is never deleted nor given an expiry
-- ARGV[4]  1 if a script sets the caller's heartbeat
-- ARGV[5]  the key of the group's record, a hash
-- returns each refused command and its error
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
