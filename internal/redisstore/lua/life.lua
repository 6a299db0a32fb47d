-- life.lua stands before epoch.lua and bootstrap.lua: it names the life of Redis' data, which ends where another process serves
-- it and, for who counts acknowledgements, where a replica attached itself: what that has acknowledged elsewhere is not known here
-- (docs/replicas.md).
--
-- life(acks) is "<run_id>", or "<run_id>:<attachments>:<acks>" where acknowledgements count. INFO may be denied or without a run_id;
-- then "?" stands for it and only a missing key shows a loss of data. Where acknowledgements count it is nil then.
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
