-- observe.lua reads the owners of leases, in any epoch.
--
-- KEYS[2…]  leases
-- per item: held (owner, pttl), free, wrong type
for i = 2, #KEYS do
  local holder = try('GET', KEYS[i])
  if not holder then
    codes[i - 1] = 'f'
  elseif type(holder) == 'table' then
    codes[i - 1] = 'w'
  else
    codes[i - 1] = 'H'
    detail(holder, call('PTTL', KEYS[i]), 0)
  end
end
return answer()
