-- letters.lua reads dead letters, oldest first.
--
-- ARGV[5]  first ID, as for XRANGE
-- ARGV[6]  limit
-- returns {ID, field, value, …} of each
local reply = {}
for _, letter in ipairs(redis.call('XRANGE', dead, ARGV[5], '+', 'COUNT', ARGV[6])) do
  local told = {letter[1]}
  for _, word in ipairs(letter[2]) do told[#told + 1] = word end
  reply[#reply + 1] = told
end
return reply
