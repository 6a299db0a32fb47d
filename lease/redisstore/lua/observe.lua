-- observe.lua reads who holds leases. It is never void.
--
-- KEYS[2…]  leases
-- per item: held (owner, pttl), free, wrong type
for i = 2, #KEYS do
  local holder = try('GET', KEYS[i])
  if not holder then
    reply[i + 2] = 4
  elseif type(holder) == 'table' then
    reply[i + 2] = 12
  else
    reply[i + 2] = {3, holder, call('PTTL', KEYS[i]), 0}
  end
end
return reply
