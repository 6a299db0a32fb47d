-- sweep.lua deletes heartbeats that nobody sets any more and that do not expire by themselves. It stands alone, without
-- epoch.lua: no lease hangs on a heartbeat.
--
-- KEYS     what may be heartbeats: keys found by their prefix
-- ARGV[1]  how old a heartbeat of a living leader is at most, ms
-- returns how many were deleted
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local age, swept = tonumber(ARGV[1]), 0
for _, key in ipairs(KEYS) do
  -- One that expires goes by itself. However long its life, it may be that of a living leader: of an election with another TTL.
  if redis.call('PTTL', key) == -1 then
    local text = redis.pcall('GET', key)
    -- 13 digits: ms since the epoch, from 2001 to 2286. Anything else is somebody else's key.
    if type(text) == 'string' and string.match(text, '^%d%d%d%d%d%d%d%d%d%d%d%d%d$') and now - tonumber(text) > age then
      swept = swept + redis.call('DEL', key)
    end
  end
end
return swept
