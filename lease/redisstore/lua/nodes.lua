-- nodes.lua reads how long heartbeats still live. It is never void.
--
-- KEYS[2…]  heartbeats
-- per item: alive (pttl), gone
for i = 2, #KEYS do
  local pttl = call('PTTL', KEYS[i])
  reply[i + 2] = pttl == -2 and 14 or {13, '', pttl, 0}
end
return reply
