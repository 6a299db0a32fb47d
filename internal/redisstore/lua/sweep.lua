-- sweep.lua deletes old heartbeats without an expiry. It runs without epoch.lua because no lease depends on a heartbeat.
--
-- KEYS     possible heartbeats: keys with their prefix
-- ARGV[1]  the highest age of a living leader's heartbeat, ms
-- returns the number of deleted keys
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local age, swept = tonumber(ARGV[1]), 0
for _, key in ipairs(KEYS) do
  -- A key with an expiry may belong to a living leader of an election with a longer TTL.
  if redis.call('PTTL', key) == -1 then
    local text = redis.pcall('GET', key)
    -- 13 digits are ms since 1970, from 2001 to 2286. Any other value is another program's.
    if type(text) == 'string' and string.match(text, '^%d%d%d%d%d%d%d%d%d%d%d%d%d$') and now - tonumber(text) > age then
      swept = swept + redis.call('DEL', key)
    end
  end
end
return swept
