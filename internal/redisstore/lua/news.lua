-- news.lua says how much a discovery must read: the number of the last notice, and when an instance last read the sessions. Without that, and
-- once the interval is over, it lets the first caller read them for all.
--
-- ARGV[3]  interval after which the sessions are to be read again, µs
-- ARGV[4]  time that this may take, µs
-- ARGV[5]  a sum of the sessions, if the caller has read them; "" to ask
-- in place of the codes: 1 if the caller is to read the sessions; then their sum, the µs since they were read, or -1 if they were not,
-- and the number of the last notice
if void then return answer() end
local record = try('HMGET', group_key, 'read', 'reading', 'sessions', 'notices')
local read, reading = tonumber(record[1] or 0) or 0, tonumber(record[2] or 0) or 0
local age, mine = -1, ''
if read > 0 and read <= now then age = now - read end
if ARGV[5] ~= '' then
  try('HSET', group_key, 'read', string.format('%.0f', now), 'sessions', ARGV[5])
elseif (age < 0 or age >= tonumber(ARGV[3])) and (reading > now or now - reading >= tonumber(ARGV[4])) then
  mine = '1'
  try('HSET', group_key, 'reading', string.format('%.0f', now))
end
codes = {mine}
detail(record[3] or '', age, tonumber(record[4] or 0) or 0)
return answer()
