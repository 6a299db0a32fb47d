-- bury.lua makes an entry a dead letter and ends its session, unless the session has a newer term. If the key of dead letters has another
-- type, no letter is kept.
--
-- ARGV[5]  entry
-- ARGV[6]  why
-- ARGV[7]  the entry's session, "" for none
-- ARGV[8]  the caller's fence
-- ARGV[9]  reason with which the session ends, "" if it does not end
-- ARGV[10] deliveries
-- ARGV[11] approximate maximum number of dead letters
-- returns 1; or 0 if the entry is not on the bus, is another session's, or its session runs or has ended: such a session must not run
-- again, so its entry becomes no letter
local said = at(ARGV[5], ARGV[7])
if not said then return 0 end
if ARGV[9] ~= '' then
  local r = fields(ARGV[7], 'state', 'fence', 'key', 'owner')
  local known = tonumber(r[2] or 0) or 0
  if settled[r[1]] then
    done(ARGV[5], ARGV[7])
    return 0
  end
  if r[1] and known <= tonumber(ARGV[8]) then
    finish(ARGV[7], r[3], r[4], ARGV[9], ARGV[6])
  end
end
local letter = {'entry', ARGV[5], 'why', ARGV[6], 'tries', ARGV[10]}
if said[1] then
  for _, word in ipairs(said) do letter[#letter + 1] = word end
  soft('XADD', dead, 'MAXLEN', '~', ARGV[11], '*', unpack(letter))
end
done(ARGV[5], ARGV[7])
return said[1] and 1 or 0
