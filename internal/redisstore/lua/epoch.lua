-- epoch.lua precedes every guarded script in one text. It begins a new epoch with a quarantine if Redis may have lost leases of the
-- current one (G9).
--
-- KEYS[1]     the epoch: "<life> <end of quarantine, µs of Redis TIME>" (life.lua), no TTL
-- KEYS[last]  the group's record; removed here, so that the script sees only its own keys
-- ARGV[1]  the caller's epoch, "" for none
-- ARGV[2]  length of a new quarantine, µs. After a space: how many replicas must acknowledge writes, or "new" if the caller accepts a
--          Redis that has never granted a lease (doubt.lua). The higher number, the caller's or the epoch's, counts.
--
-- The record is a hash without TTL. "epoch" is its epoch, and "quarantine" the length that the group has agreed on, µs. "doubt" is the
-- last epoch to which doubt.lua gave a quarantine, and the reason. "operator" is the last epoch that an operator's
-- command began. Unknown fields are kept. The record is written with the epoch, and whoever learns the epoch reads the record. Only an
-- old version begins an epoch without a record. Its agreement is unknown, so the next request begins another epoch.
--
-- The script that follows has now (TIME in µs), left (the rest of the quarantine in µs, or 0), void (the caller knows another epoch),
-- begin(), codes, to which it appends one letter per item, and answer(), which it returns:
--   {epoch, left, now, quarantine, codes, owner, pttl, fence, owner, pttl, fence, …}
-- quarantine is the group's: 0 if the caller knows the epoch, negative if an operator began the epoch. detail() appends the three
-- elements of a capital letter: owner or "", PTTL in ms or -1 for none, fence or 0.
--   G granted  A adopted  H held  f free  q quarantine  r renewed  t reasserted  l, L lost  d released  s, S superseded
--   c closed  w wrong type  V alive  g gone
local call, try = redis.call, redis.pcall
local group_key = table.remove(KEYS)
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local epoch = try('GET', KEYS[1])
if type(epoch) == 'table' then
  return redis.error_reply('WRONGTYPE the epoch key ' .. KEYS[1] .. ' holds no string')
end
local length, option = string.match(ARGV[2], '^(%d+) ?(%w*)$')
local acks = tonumber(option) or 0
local known_run, quarantine_end
local agreed, sign = 0, 1
if epoch then
  known_run, quarantine_end = string.match(epoch, '^(%S+) (%d+)$')
  acks = math.max(acks, tonumber(string.match(known_run or '', ':(%d+)$') or 0))
end
local run = life(acks)
if not run then return redis.error_reply(no_life) end
-- begin voids all earlier grants. It writes the record first, because an epoch without a record is replaced at once.
local function begin()
  agreed = tonumber(length)
  local wait, why = agreed
  if not epoch and ARGV[1] == '' and option == 'new' then
    local keys = {group_key}
    for i = 2, #KEYS do keys[i] = KEYS[i] end
    wait, why = doubt(keys, agreed)
  end
  quarantine_end = string.format('%.0f', now + wait)
  local next = run .. ' ' .. quarantine_end
  if next == epoch then
    quarantine_end = string.format('%.0f', now + agreed + 1)
    next = run .. ' ' .. quarantine_end
  end
  epoch = next
  call('HSET', group_key, 'epoch', epoch, 'quarantine', length)
  if why then call('HSET', group_key, 'doubt', epoch .. ' ' .. why) end
  call('SET', KEYS[1], epoch)
end
if known_run ~= run then
  begin()
elseif epoch ~= ARGV[1] then
  local noted = try('HMGET', group_key, 'epoch', 'quarantine', 'operator')
  if noted.err then
    return redis.error_reply('WRONGTYPE the key ' .. group_key .. ' holds no record of a group')
  end
  local noted_length = string.match(noted[2] or '', '^%d+$')
  if noted[1] == epoch and noted_length then
    agreed = tonumber(noted_length)
    if noted[3] == epoch then sign = -1 end
  else
    begin()
  end
end
local left = math.max(0, quarantine_end - now)
local void = epoch ~= ARGV[1]
local codes, reply = {}, {'', 0, now, 0, ''}
-- fence_of returns the fence in a key's value, or 0 if the value is none: another program wrote it. Numbers in scripts are exact below
-- 2^53. Fences begin as microseconds of Redis' clock, so they reach 2^53 in the year 2255.
local function fence_of(text)
  local n = tonumber(text or 0)
  return n and n > 0 and n < 9007199254740992 and n or 0
end
-- publish sends a notice, and its number after it. An instance that has heard all numbers has missed no notice (news.lua). A notice only
-- saves time, so a denied command must not undo what was granted.
local function publish(channel, from, text)
  local number = string.format('%.0f', (tonumber(try('HGET', group_key, 'notices') or 0) or 0) + 1)
  local counted = try('HSET', group_key, 'notices', number)
  try('PUBLISH', channel, text)
  if type(counted) == 'number' then try('PUBLISH', channel, 'number ' .. from .. ' ' .. number .. ' ' .. quarantine_end) end
end
local function detail(owner, pttl, fence)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = owner, pttl, fence
end
local function answer()
  reply[1], reply[2], reply[4] = epoch, math.max(0, quarantine_end - now), sign * agreed
  reply[5] = table.concat(codes)
  return reply
end
