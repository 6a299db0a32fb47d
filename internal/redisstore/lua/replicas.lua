-- replicas.lua lowers how many replicas have to acknowledge what counts, in an epoch of its own, so that every instance learns of it
-- with its next request. Its ARGV[2] names no such number, so that the epoch's counts until then.
--
-- ARGV[1]  the epoch in which it was decided; in another one nothing is done
-- ARGV[3]  how many have to from now on
if not void then
  run = life(tonumber(ARGV[3]))
  begin()
  call('HSET', group_key, 'operator', epoch)
end
return answer()
