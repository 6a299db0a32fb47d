-- list.lua reads the IDs of sessions, newest first.
--
-- ARGV[5]  where to begin, as ZREVRANGEBYLEX takes it
-- ARGV[6]  how many are read
-- returns {how many were, where to go on, ID, …}: after what is longer than any ID at its first 513 bytes, below which it is not again
local some = redis.call('ZREVRANGEBYLEX', index, ARGV[5], '-', 'LIMIT', 0, ARGV[6])
local reply = ids(some)
table.insert(reply, 1, '(' .. string.sub(some[#some] or '', 1, 513))
table.insert(reply, 1, #some)
return reply
