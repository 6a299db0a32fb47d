-- pass.lua takes leases from an owner that has agreed to it or is known to be dead: for another owner, who must acquire them
-- (which adopts them under a new fence) before it believes in them, or for nobody. It stands alone, without epoch.lua: it grants
-- nothing.
--
-- KEYS[1…]  leases
-- ARGV[1]  the owner
-- ARGV[2]  who gets them, "-" for nobody
-- ARGV[3]  TTL, ms
-- ARGV[4]  channel
-- ARGV[5]  length of the lease prefix
-- returns the leases that were the owner's, without their prefix
local passed, freed = {}, {'freed', ARGV[1]}
for _, lease in ipairs(KEYS) do
  if redis.pcall('GET', lease) == ARGV[1] then
    passed[#passed + 1] = string.sub(lease, ARGV[5] + 1)
    if ARGV[2] == '-' then
      redis.call('DEL', lease)
      freed[#freed + 1] = passed[#passed]
      freed[#freed + 1] = '-'
    else
      redis.call('SET', lease, ARGV[2], 'PX', ARGV[3])
    end
  end
end
if #freed > 2 then redis.pcall('PUBLISH', ARGV[4], table.concat(freed, ' ')) end
return passed
