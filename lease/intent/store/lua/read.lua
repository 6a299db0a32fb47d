-- read.lua reads sessions' records: of each the fields that are known, if together they are no longer than an honest record. What else a
-- foreign hand has put there, 60 MB perhaps, is not sent.
--
-- ARGV[5]    most bytes of a record
-- ARGV[6]    number of fields
-- ARGV[7..]  their names, then the sessions' IDs
-- returns for each ID the values of the fields ('' where there is none; nothing where there is no record), or what is wrong with its key
local most, names, records = tonumber(ARGV[5]), {}, {}
local first = 7 + ARGV[6]
for i = 7, first - 1 do names[#names + 1] = ARGV[i] end
local function bytes(key)
  local sum = 0
  for _, name in ipairs(names) do
    local n = soft('HSTRLEN', key, name)
    if not n then return nil end
    sum = sum + n
  end
  return sum
end
local function read(key)
  local n = bytes(key)
  if not n then return 'it holds another type' end
  if n == 0 then return {} end
  if n > most then return 'its record has more than the ' .. ARGV[5] .. ' bytes that are read of one' end
  local values = redis.call('HMGET', key, unpack(names))
  for i = 1, #names do values[i] = values[i] or '' end
  return values
end
for i = first, #ARGV do records[#records + 1] = read(record(ARGV[i])) end
return records
