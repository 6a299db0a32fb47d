-- owners.lua reads the owners of many leases, in any epoch. Its reply is compact.
--
-- KEYS[2…]  leases, at most 7,000
-- in place of the codes: a string in which bytes 2i-1 and 2i are the number of lease i's owner, high byte first. 0 means no owner, or a
-- key of another type, which acquire.lua reports. Then come the owners, from number 1 on.
if #KEYS < 2 then return answer() end
local char = string.char
local numbers, count, packed = {}, 0, {}
local holders = call('MGET', unpack(KEYS, 2))
for i = 1, #holders do
  local holder, number = holders[i], 0
  if holder then
    number = numbers[holder]
    if not number then
      count = count + 1
      number = count
      numbers[holder] = number
      reply[5 + count] = holder
    end
  end
  packed[i] = char(math.floor(number / 256), number % 256)
end
codes = packed
return answer()
