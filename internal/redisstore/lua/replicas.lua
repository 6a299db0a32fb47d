-- replicas.lua lowers the number of acknowledging replicas in a new epoch, so that every instance learns of it with its next request. Its
-- ARGV[2] has no such number, so the old epoch's number counts until then.
--
-- ARGV[1]  the epoch that the caller has checked; in any other epoch the script does nothing
-- ARGV[3]  the new number
if not void then
  run = life(tonumber(ARGV[3]))
  begin()
  call('HSET', group_key, 'operator', epoch)
end
return answer()
