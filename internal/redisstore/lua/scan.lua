-- scan.lua reads a page of the names that match a pattern, and of each no more than who asks has use for. It stands alone, without epoch.lua:
-- it changes nothing.
--
-- ARGV[1]  cursor
-- ARGV[2]  the pattern
-- ARGV[3]  how many keys are looked at
-- ARGV[4]  how many bytes of each name
-- returns what SCAN does
local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
local names = page[2]
for i = 1, #names do names[i] = string.sub(names[i], 1, tonumber(ARGV[4])) end
return page
