-- letters.lua reads dead letters, oldest first.
--
-- ARGV[5]  where to begin, as XRANGE takes it
-- ARGV[6]  how many at most
-- returns of each {ID, field, value, …}: of one that a foreign hand has put there, 19 fields, which is as many as of an entry
local reply = {}
for _, letter in ipairs(redis.call('XRANGE', dead, ARGV[5], '+', 'COUNT', ARGV[6])) do
  local told = {letter[1]}
  for i = 1, math.min(#letter[2], 38) do told[#told + 1] = short(letter[2][i]) end
  reply[#reply + 1] = told
end
return reply
