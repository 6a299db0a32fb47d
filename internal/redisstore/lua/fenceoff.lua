-- fenceoff.lua takes a lease from an owner that does not answer, and gives it to nobody: until the key expires, which it does when it
-- would have, it is in the name of whoever fences it off. The owner cannot renew it, nor release it, and nobody can acquire it before the
-- last window of the owner has closed. The fence rises, so that the owner cannot assert the term again after a loss of data either.
-- It stands alone, without epoch.lua: it grants nothing, and whatever it leaves is safe in every epoch (docs/leasectl.md).
--
-- KEYS[1], KEYS[2]  lease and fence key
-- KEYS[3]  the group's record
-- ARGV[1]  the owner; of a value that is longer than any, what is shown of it (epoch.lua)
-- ARGV[2]  the fence of the owner's term, "" if there is none
-- ARGV[3]  who fences it off
-- ARGV[4]  life of a fence key, ms
-- returns 1 and the new fence, or 0 where the lease is not of that owner and fence, or -1 where it never expires and the group has not
-- agreed on how long any owner may believe in it
local holder, last = redis.pcall('GET', KEYS[1]), redis.pcall('GET', KEYS[2])
-- A fence is what scripts write as one, as for who looks. What else Lua reads as a number, such as 0x10, a foreign hand wrote: it is none.
local known = tonumber(last) and tonumber(string.match(last, '^[1-9]%d*$') or '') -- nil where there is none, or what is no string
if not known or known >= 9007199254740992 then last, known = '', 0 end
if type(holder) ~= 'string' or string.sub(holder, 1, 513) ~= ARGV[1] or last ~= ARGV[2] then return {0, ''} end
local expires = redis.call('PTTL', KEYS[1]) >= 0
local agreed
if not expires then
  agreed = tonumber(redis.call('HGET', KEYS[3], 'quarantine') or '')
  if not agreed then return {-1, ''} end
end
local time = redis.call('TIME')
local fence = string.format('%.0f', math.max(known, time[1] * 1000000 + time[2] - 1) + 1)
-- The lease before its fence, as acquire.lua has it: who reads the stream sees whose fence it is.
if expires then
  redis.call('SET', KEYS[1], ARGV[3], 'KEEPTTL')
else
  redis.call('SET', KEYS[1], ARGV[3], 'PX', math.ceil(agreed / 1000))
end
redis.call('SET', KEYS[2], fence, 'PX', ARGV[4])
return {1, fence}
