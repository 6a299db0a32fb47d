-- nodes.lua reads the remaining lives of heartbeats, in any epoch.
--
-- KEYS[2…]  heartbeats
-- per item: alive (pttl), gone
for i = 2, #KEYS do
  local pttl = call('PTTL', KEYS[i])
  if pttl == -2 then
    codes[i - 1] = 'g'
  else
    codes[i - 1] = 'V'
    detail('', pttl, 0)
  end
end
return answer()
