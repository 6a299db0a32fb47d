-- lease.lua is the second half of phase 1, after epoch.lua. The API takes the lease on the service for the session, with a value that
-- names the session. The worker takes it over with a fence of its own.
--
-- KEYS[2]  lease
-- KEYS[3]  its fence key
-- ARGV[11]  TTL, ms
-- ARGV[12]  life of a fence key, ms
-- returns {'Q', ms} in a quarantine
if left > 0 then return {'Q', string.format('%.0f', math.ceil(left / 1000))} end
if not holder then
  local last = redis.call('GET', KEYS[3])
  local fence = math.max(tonumber(last or 0) or 0, now - 1) + 1
  grant = function()
    redis.call('SET', KEYS[2], 'session:' .. ARGV[5], 'NX', 'PX', ARGV[11])
    redis.call('SET', KEYS[3], string.format('%.0f', fence), 'PX', ARGV[12])
  end
end
