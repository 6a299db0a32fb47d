-- leave.lua deletes a heartbeat and publishes that the instance has left.
--
-- KEYS[2]  heartbeat
-- ARGV[3]  instance
-- ARGV[4]  channel
if void then return answer() end
call('DEL', KEYS[2])
publish(ARGV[4], ARGV[3], 'left ' .. ARGV[3])
return answer()
