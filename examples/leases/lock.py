"""A lease adapter (docs/lease-protocol.md) that needs only Python: SET NX with a fence, which renew and release compare."""
import json, os, socket, sys, time, urllib.parse

REDIS, OWNER = urllib.parse.urlparse(os.environ["LEASESTORM_REDIS_URL"]), os.environ["LEASESTORM_INSTANCE"]
IF_OWNED = "if redis.call('get', KEYS[1]) == ARGV[1] and redis.call('get', KEYS[2]) == ARGV[3] then return "
SCRIPTS = {
    "acquire": """if not redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then return 0 end local t = redis.call('time')
        local fence = string.format('%d', math.max((redis.call('get', KEYS[2]) or 0) + 1, t[1] * 1e6 + t[2]))
        redis.call('set', KEYS[2], fence) return tonumber(fence)""",
    "renew": IF_OWNED + "redis.call('pexpire', KEYS[1], ARGV[2]) end return 0",
    "check": IF_OWNED + "1 end return 0",
    "release": IF_OWNED + "redis.call('del', KEYS[1]) end return 0"}

def redis(*words):  # sends one command on a new connection, and returns its number
    with socket.create_connection((REDIS.hostname, REDIS.port), 0.5) as conn:
        replies = conn.makefile("rb")
        for command in [("AUTH", REDIS.username or "default", REDIS.password)] * bool(REDIS.password) + [words]:
            conn.sendall(b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in (str(w).encode() for w in command)))
            reply = replies.readline()
        return int(reply.removeprefix(b":"))

fences = {}
for q in map(json.loads, sys.stdin):
    key, answer, sent = q["key"], {"id": q["id"]}, time.time() * 1000
    try:
        got = redis("EVAL", SCRIPTS[q["op"]], 2, key, "{%s}:fence" % key, OWNER, q["ttl_ms"], fences.get(key, 0))
        fences[key] = got if q["op"] == "acquire" else fences.get(key, 0)
        answer.update(ok=got > 0, fence=fences[key], until_unix_ms=int(sent + q["ttl_ms"] * 0.99))
    except (OSError, ValueError) as err:
        answer.update(ok=False, error=str(err), retry=True)
    print(json.dumps(answer), flush=True)
