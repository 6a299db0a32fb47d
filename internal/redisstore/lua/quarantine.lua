-- quarantine.lua changes the group's quarantine in a new epoch, so that every instance learns of it with its next request. ARGV[2] is the
-- longer of the old and the new length, because instances may still believe in earlier grants.
--
-- ARGV[1]  the epoch that the caller has checked; in any other epoch the script does nothing
-- ARGV[3]  the new length, µs
if not void then
  begin()
  agreed = tonumber(ARGV[3])
  call('HSET', group_key, 'quarantine', ARGV[3], 'operator', epoch)
end
return answer()
