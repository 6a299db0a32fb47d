-- renew.lua extends the leases that their owner still holds. It never creates a key (G10).
--
-- KEYS[2…n-1]  leases
-- KEYS[n]      a fence key to extend: each fence gets its turn, so that it outlives a long term
-- ARGV[3]  owner
-- ARGV[4]  TTL, ms
-- ARGV[5]  life of a fence key, ms
-- per item: renewed, lost (owner and pttl, if another holds it), wrong type
if void then return answer() end
local owner, ttl = ARGV[3], ARGV[4]
local n = #KEYS
for i = 2, n - 1 do
  local lease = KEYS[i]
  local holder = try('GET', lease)
  if holder == owner then
    call('PEXPIRE', lease, ttl)
    codes[i - 1] = 'r'
  elseif not holder then
    codes[i - 1] = 'l'
  elseif type(holder) == 'table' then
    codes[i - 1] = 'w'
  else
    codes[i - 1] = 'L'
    detail(holder, call('PTTL', lease), 0)
  end
end
call('PEXPIRE', KEYS[n], ARGV[5])
return answer()
