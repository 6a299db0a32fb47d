-- acquire.lua grants free leases. It also adopts leases that the owner already holds, unless the owner has never asked for them: another
-- instance with the same ID holds those. Each grant is a new term with a new fence, and so is an adoption under a fence that the owner
-- knows. An unknown fence comes from one of the owner's unanswered attempts. acquire.lua keeps this fence, so that a late attempt can
-- only extend the current term (G1, G3, G10). In a quarantine it grants and adopts nothing.
--
-- KEYS[2i], KEYS[2i+1]  lease and fence key of item i
-- ARGV[3]  owner
-- ARGV[4]  TTL, ms
-- ARGV[5]  the highest fence that the owner has seen
-- ARGV[6]  life of a fence key, ms
-- ARGV[7]  channel
-- ARGV[8]  length of the lease prefix
-- ARGV[8+i]  1 if the owner has never asked for item i
-- per item: granted or adopted (fence), held (owner, pttl), quarantine, wrong type
if void then return answer() end
local owner, ttl, fence_life = ARGV[3], ARGV[4], ARGV[6]
local taken = {'taken', owner}
for i = 2, #KEYS, 2 do
  local lease, fence_key = KEYS[i], KEYS[i + 1]
  local holder, last = try('GET', lease), try('GET', fence_key)
  if type(holder) == 'table' or type(last) == 'table' then
    codes[#codes + 1] = 'w'
  elseif holder and (holder ~= owner or ARGV[8 + i / 2] == '1') then
    codes[#codes + 1] = 'H'
    detail(holder, call('PTTL', lease), 0)
  elseif left > 0 then
    codes[#codes + 1] = 'q'
  else
    local seen, known = tonumber(ARGV[5]), fence_of(last)
    local fence = math.max(known, seen, now - 1) + 1
    if holder and known > seen then fence = known end
    if holder then
      call('PEXPIRE', lease, ttl)
    else
      call('SET', lease, owner, 'NX', 'PX', ttl)
      taken[#taken + 1] = string.sub(lease, ARGV[8] + 1)
    end
    call('SET', fence_key, string.format('%.0f', fence), 'PX', fence_life)
    codes[#codes + 1] = holder and 'A' or 'G'
    detail(owner, -1, fence)
  end
end
if #taken > 2 then publish(ARGV[7], owner, table.concat(taken, ' ')) end
return answer()
