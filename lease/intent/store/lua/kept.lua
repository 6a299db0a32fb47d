-- kept.lua counts the sessions that have a record, but for those that ended longer ago than it is kept.
return redis.call('ZCARD', index) - (soft('ZCOUNT', ended, '-inf', forgotten) or 0)
