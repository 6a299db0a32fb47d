-- beat.lua sets a heartbeat. If the heartbeat is new, it publishes that the instance has joined.
--
-- KEYS[2]  heartbeat
-- ARGV[3]  instance
-- ARGV[4]  TTL, ms
-- ARGV[5]  channel
if void then return answer() end
local present = call('EXISTS', KEYS[2])
call('SET', KEYS[2], '1', 'PX', ARGV[4])
if present == 0 then publish(ARGV[5], ARGV[3], 'joined ' .. ARGV[3]) end
return answer()
