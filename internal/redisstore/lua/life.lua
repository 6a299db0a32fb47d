-- life.lua precedes epoch.lua and bootstrap.lua. It names the life of Redis' data, which ends when another process serves the data. If
-- acknowledgements count, it also ends when a replica attaches itself, because that replica may have acknowledged writes of another
-- master (docs/replicas.md).
--
-- life(acks) returns "<run_id>", or "<run_id>:<attachments>:<acks>" if acknowledgements count. If INFO is denied or has no run_id, it
-- returns nil with acknowledgements, and otherwise "?": then only a missing key shows a loss of data.
local function info(section, pattern)
  local text = redis.pcall('INFO', section)
  return type(text) == 'string' and string.match(text, pattern) or nil
end
local function life(acks)
  local run = info('server', 'run_id:(%w+)')
  if acks == 0 then return run or '?' end
  local full, partial = info('stats', 'sync_full:(%d+)'), info('stats', 'sync_partial_ok:(%d+)')
  return run and full and partial and run .. ':' .. full + partial .. ':' .. acks
end
local no_life = 'NOPERM INFO shows no run_id, or not how often a replica attached itself, without which acknowledgements do not count'
