-- quarantine.lua changes the quarantine that a group has agreed on, in an epoch of its own, so that every instance learns of it
-- with its next request. ARGV[2] is the longer of the two: what was granted before may still be believed.
--
-- ARGV[1]  the epoch in which it was decided; in another one nothing is done
-- ARGV[3]  the new length, µs
if not void then
  begin()
  agreed = tonumber(ARGV[3])
  call('HSET', group_key, 'quarantine', ARGV[3], 'operator', epoch)
end
return answer()
