-- strings.lua reads the beginnings of strings. It stands alone, without epoch.lua: it changes nothing. GETRANGE copies what is asked for
-- alone, where MGET would copy all that a key holds.
--
-- KEYS     at most 7,000
-- ARGV[1]  index of the last byte of each
-- returns what they hold: for a key that is not there an empty string, for one of another type Redis' error
local values = {}
for i = 1, #KEYS do values[i] = redis.pcall('GETRANGE', KEYS[i], 0, ARGV[1]) end
return values
