-- supersede.lua ends an epoch that its caller has seen superseded: an old master came back, and what was granted elsewhere
-- meanwhile it does not know. The epoch that follows begins with a quarantine, like any other.
--
-- ARGV[1]  the epoch that is to end; in another one nothing is done
if not void then begin() end
return answer()
