-- doubt.lua comes between life.lua and epoch.lua. It decides whether an instance may still believe in a lease of a Redis without an
-- epoch. Each sign of use can only lengthen the quarantine, and so does each field that INFO does not show.
--
-- doubt(keys, length) returns the necessary part of a quarantine of length µs, and the reason; 0 and nil for none.
local expected = {
  {'role', 'master'}, {'cluster_enabled', '0'}, {'master_replid2', string.rep('0', 40)}, {'second_repl_offset', '-1'},
  {'connected_slaves', '0'}, {'sync_full', '0'}, {'loading', '0'}, {'evicted_keys', '0'},
}
-- Commands that remove keys, replace them or hide what was executed. Redis 6.2 does not count subcommands.
local suspect = {
  '^flushall$', '^flushdb$', '^swapdb$', '^replicaof$', '^slaveof$', '^failover$', '^restore', '^migrate$', '^debug', '^module',
  '^cluster', '^config$', '^config|resetstat$',
}
-- used returns why a command shows that Redis may have granted leases. Each grant is a script that did not fail.
local function used(command, counts)
  if string.find(command, '^eval') or string.find(command, '^fcall') then
    local calls, failed = string.match(counts, '^calls=(%d+),'), string.match(counts, ',failed_calls=(%d+)$')
    if not calls or not failed then return 'INFO does not show how often ' .. command .. ' failed' end
    return tonumber(calls) > tonumber(failed) and 'it has executed ' .. string.upper(command) or nil
  end
  for _, pattern in ipairs(suspect) do
    if string.find(command, pattern) then return 'it has executed ' .. string.upper(command) end
  end
end
local function doubt(keys, length)
  for _, key in ipairs(keys) do
    if redis.pcall('GET', key) then return length, 'the key ' .. key .. ' exists' end
  end
  local text = redis.pcall('INFO', 'everything')
  if type(text) ~= 'string' then return length, 'INFO is denied' end
  if string.find(text, '# KeyDB', 1, true) then return length, 'KeyDB is not known well enough' end
  local fields, commands = {}, 0
  for line in string.gmatch(text, '[^\r\n]+') do
    local name, value = string.match(line, '^([^:]+):(.*)$')
    local command = string.match(name or '', '^cmdstat_(.+)$')
    if name == 'module' then return length, 'a module is loaded' end
    if command then
      commands = commands + 1
      local why = used(string.lower(command), value)
      if why then return length, why end
    elseif name then
      if fields[name] and fields[name] ~= value then return length, 'INFO shows ' .. name .. ' twice' end
      fields[name] = value
    elseif string.find(line, '^# ') then
      fields[line] = ''
    end
  end
  if commands == 0 or not fields['# Modules'] then return length, 'INFO shows no commands or no modules' end
  for _, field in ipairs(expected) do
    local value = fields[field[1]]
    if value ~= field[2] then return length, 'INFO shows ' .. field[1] .. ':' .. (value or '?') end
  end
  local uptime = string.match(fields['uptime_in_seconds'] or '', '^%d+$')
  if not uptime then return length, 'INFO shows no uptime_in_seconds' end
  local left = length - math.max(0, tonumber(uptime) - 1) * 1000000
  if left > 0 then return left, 'it was started ' .. uptime .. ' s ago' end
  return 0
end
