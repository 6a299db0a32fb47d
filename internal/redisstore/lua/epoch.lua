-- epoch.lua stands before every script (the store concatenates them): it finds out whether Redis is still the Redis that
-- granted what the caller believes, and begins a new epoch with a quarantine where it is not (guarantee G9).
--
-- KEYS[1]     the epoch key: "<life> <end of quarantine, µs of Redis TIME>" (life.lua), no TTL
-- KEYS[last]  the group's record, taken off here, so that a script finds its own keys alone
-- ARGV[1]  the epoch that the caller knows, "" for none
-- ARGV[2]  length of a quarantine that is begun, µs; and, after a blank, how many replicas the caller has acknowledge what counts, or
--          "new": Redis may turn out never to have granted anything (doubt.lua). The higher number of replicas, that or the epoch's,
--          is the epoch's: who knows the epoch knows it.
--
-- The record is a hash, no TTL: "epoch", the one it belongs to, and "quarantine", the length that this epoch's group has agreed
-- on, µs. Where no epoch was there, "doubt" is the epoch and why it has a quarantine. "operator" is the last epoch that an operator's
-- command began. Fields that this version does not know are kept. The record is written with the epoch, and read by whoever learns of the epoch, so whoever knows the epoch knows the
-- record. An epoch without one was begun by a version that knows none, and what it promises is not known: it is followed by one
-- that has a record, and that the other version understands.
--
-- Gives the scripts: now (TIME in µs), left (µs of quarantine left, 0 for none), void (the caller knows another epoch), begin(),
-- codes, to which a script appends one letter per item, and answer(), which it returns:
--   {epoch, left, now, the group's quarantine (0 where the caller knows it, negative where an operator began the epoch), codes, owner, pttl, fence, owner, pttl, fence, …}
-- A capital letter has three more elements, which detail() appends: owner or "", PTTL in ms or -1 for none, fence or 0.
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
-- begin makes all that was granted in the epoch before void. The record is first: an epoch without one would be followed at once.
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
-- fence_of is what a fence key says. What no fence can be, a foreign hand wrote: it counts for nothing. Numbers in scripts are
-- exact below 2^53, which fences, being microseconds of Redis' clock at first, reach in the year 2255.
local function fence_of(text)
  local n = tonumber(text or 0)
  return n and n > 0 and n < 9007199254740992 and n or 0
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
