#!/bin/sh
# A lease adapter (docs/lease-protocol.md) that needs only redis-cli: SET NX with a random token, which renew and release compare.
redis() { timeout 1 redis-cli -u "$LEASESTORM_REDIS_URL" --raw "$@" 2>&1; }
if_owned() { redis EVAL "if redis.call('get', KEYS[1]) == ARGV[1] then return $1 end return 0" 1 "$key" "$token" "$ttl"; }
field() { echo "$line" | sed "s/.*\"$1\":\"*\([^\",}]*\).*/\1/"; }

while read -r line; do
	id=$(field id) key=$(field key) ttl=$(field ttl_ms) sent=$(date +%s%3N)
	name=token_$(echo "$key" | tr -c 'a-zA-Z0-9\n' _) # the variable with the token of this lease
	eval "token=\$$name"
	case $(field op) in
	acquire)
		token=$LEASESTORM_INSTANCE:$sent:$id
		eval "$name=$token"
		got=$(redis EVAL "return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) and 1 or 0" 1 "$key" "$token" "$ttl") ;;
	renew) got=$(if_owned "redis.call('pexpire', KEYS[1], ARGV[2])") ;;
	check) got=$(if_owned 1) ;;
	release) got=$(if_owned "redis.call('del', KEYS[1])") ;;
	esac
	case $got in
	1) echo "{\"id\":$id,\"ok\":true,\"until_unix_ms\":$((sent + ttl * 99 / 100))}" ;;
	0) echo "{\"id\":$id,\"ok\":false,\"error\":\"held by another\"}" ;;
	*) echo "{\"id\":$id,\"ok\":false,\"error\":\"no answer of Redis\",\"retry\":true}" ;;
	esac
done
