-- letters.lua reads dead letters, oldest first.
--
-- ARGV[5]  where to begin, as XRANGE takes it
-- ARGV[6]  how many at most
-- returns of each {ID, field, value, …}
local reply = {}
for _, letter in ipairs(redis.call('XRANGE', dead, ARGV[5], '+', 'COUNT', ARGV[6])) do
  local told = {letter[1]}
  for _, word in ipairs(letter[2]) do told[#told + 1] = word end
  reply[#reply + 1] = told
end
return reply
