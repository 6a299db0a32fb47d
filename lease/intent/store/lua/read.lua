-- read.lua reads sessions' records.
--
-- ARGV[5]   number of fields
-- ARGV[6…]  their names, then the sessions' IDs
-- returns for each ID the values of the fields ('' for a missing one; no values without a record), or the fault of its key
local names, records = {}, {}
local first = 6 + ARGV[5]
for i = 6, first - 1 do names[#names + 1] = ARGV[i] end
local function read(key)
  local values, there = soft('HMGET', key, unpack(names)), false
  if not values then return 'it holds another type' end
  for i = 1, #names do
    there = there or values[i]
    values[i] = values[i] or ''
  end
  return there and values or {}
end
for i = first, #ARGV do records[#records + 1] = read(record(ARGV[i])) end
return records
