-- release.lua deletes leases whose owner and fence both match, because a late release must not end a later term of the same owner (G3,
-- G10). It also notifies waiting instances of a lease that was already gone, unless a later term has begun since.
--
-- KEYS[2i], KEYS[2i+1]  lease and fence key of item i
-- ARGV[3]  owner
-- ARGV[4]  life of a fence key, ms
-- ARGV[5]  channel
-- ARGV[6]  length of the lease prefix
-- ARGV[5+2i], ARGV[6+2i]  fence and heir of item i, "-" for no heir
-- per item: released, lost (owner and pttl, if the lease is held), wrong type
if void then return answer() end
local owner = ARGV[3]
local freed = {'freed', owner}
local function free(i, lease)
  freed[#freed + 1] = string.sub(lease, ARGV[6] + 1)
  freed[#freed + 1] = ARGV[6 + 2 * i]
end
for i = 1, (#KEYS - 1) / 2 do
  local lease, fence_key = KEYS[2 * i], KEYS[2 * i + 1]
  local holder, last = try('GET', lease), try('GET', fence_key)
  if type(holder) == 'table' or type(last) == 'table' then
    codes[i] = 'w'
  elseif holder == owner and last == ARGV[5 + 2 * i] then
    call('DEL', lease)
    call('PEXPIRE', fence_key, ARGV[4])
    free(i, lease)
    codes[i] = 'd'
  elseif holder then
    codes[i] = 'L'
    detail(holder, call('PTTL', lease), 0)
  else
    if last == ARGV[5 + 2 * i] then free(i, lease) end
    codes[i] = 'l'
  end
end
if #freed > 2 then publish(ARGV[5], owner, table.concat(freed, ' ')) end
return answer()
