-- asked.lua reads the beginning of a string by GET, for who may not call GETRANGE: no rule of an instance has it. It stands alone, without
-- epoch.lua: it changes nothing.
--
-- KEYS[1]  the key
-- ARGV[1]  index of the last byte
-- returns what it holds, an empty string where it is not there
return string.sub(redis.call('GET', KEYS[1]) or '', 1, ARGV[1] + 1)
