-- bury.lua moves an entry that cannot be done to the dead letters, and ends its session, unless a newer term has it. Where there is another
-- type in the place of the dead letters, no letter is kept.
--
-- ARGV[5]  entry
-- ARGV[6]  why
-- ARGV[7]  session that it names, "" for none
-- ARGV[8]  fence that this stands on
-- ARGV[9]  reason with which that session ends, "" if it does not
-- ARGV[10] deliveries
-- ARGV[11] how many dead letters are kept, about
-- returns 1, or 0 when the entry is not on the bus any more, is another session's, which is left alone, or of a session that runs or has
-- ended, which is no letter: put back, it would run again
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
