-- reassert.lua restores terms that Redis lost. It works only in a quarantine, in which Redis grants nothing, and never over a higher
-- fence (G1, G9).
--
-- KEYS[2i], KEYS[2i+1]  lease and fence key of item i
-- ARGV[3]  owner
-- ARGV[4]  TTL, ms
-- ARGV[5]  life of a fence key, ms
-- ARGV[5+i]  fence of item i
-- per item: reasserted, superseded (owner and pttl, if the lease is held), closed, wrong type
if void then return answer() end
local owner, ttl, fence_life = ARGV[3], ARGV[4], ARGV[5]
for i = 1, (#KEYS - 1) / 2 do
  local lease, fence_key, fence = KEYS[2 * i], KEYS[2 * i + 1], ARGV[5 + i]
  local holder, last = try('GET', lease), try('GET', fence_key)
  if type(holder) == 'table' or type(last) == 'table' then
    codes[i] = 'w'
  elseif left == 0 then
    codes[i] = 'c'
  elseif fence_of(last) <= tonumber(fence) then
    call('SET', lease, owner, 'PX', ttl)
    call('SET', fence_key, fence, 'PX', fence_life)
    codes[i] = 't'
  else
    codes[i] = holder and 'S' or 's'
    if holder then detail(holder, call('PTTL', lease), 0) end
  end
end
return answer()
