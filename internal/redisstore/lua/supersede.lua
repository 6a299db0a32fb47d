-- supersede.lua ends an epoch that its caller knows to be superseded: a deposed master has returned, which does not know the grants of
-- its successor. Like any other, the next epoch begins with a quarantine.
--
-- ARGV[1]  the epoch to end; in any other epoch the script does nothing
if not void then begin() end
return answer()
