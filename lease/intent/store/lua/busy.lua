-- busy.lua is the first half of phase 1. It refuses a start whose service is in use, or whose key names another session, before anything
-- is written (I4).
--
-- KEYS[2]  lease
-- returns {'B', holder}
local known = soft('GET', prefix .. 'idem:' .. ARGV[9])
if known and known ~= ARGV[5] then
  local state = soft('HGET', record(known), 'state')
  if state and state ~= 'ENDED' then return {'B', 'session:' .. known} end
end
local holder = redis.call('GET', KEYS[2])
if holder and holder ~= 'session:' .. ARGV[5] then return {'B', holder} end
