-- values.lua reads strings, and of each no more than who asks has use for. It stands alone, without epoch.lua: it changes nothing.
--
-- KEYS     at most 7,000
-- ARGV[1]  how many bytes of each
-- returns what they hold, nothing for a key that is not there or of another type
local values = redis.call('MGET', unpack(KEYS))
for i = 1, #KEYS do
  if values[i] then values[i] = string.sub(values[i], 1, tonumber(ARGV[1])) end
end
return values
