-- pass.lua moves leases of an owner to another owner, or frees them. The first owner has agreed or is known to be dead. The second must
-- acquire them, which adopts them under a new fence, before it believes in them. pass.lua runs without epoch.lua because it grants nothing.
--
-- KEYS[1…]  leases
-- ARGV[1]  the owner
-- ARGV[2]  the new owner, "-" for nobody
-- ARGV[3]  TTL, ms
-- ARGV[4]  channel
-- ARGV[5]  length of the lease prefix
-- returns the leases that the owner held, without their prefix
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
