"""A lease adapter of redis-py's Lock.

It promises a lock that expires after its timeout, and that release, extend and reacquire compare the token. It renews nothing by itself.
Its client waits for an answer for ever, unless socket_timeout is set.
"""
import json, os, sys
import redis, redis.lock

ttl = int(os.environ["LEASESTORM_TTL_MS"]) / 1000
careful = "CAREFUL" in os.environ
limits = {"socket_timeout": ttl / 10, "socket_connect_timeout": ttl / 10} if careful else {}
client = redis.Redis.from_url(os.environ["LEASESTORM_REDIS_URL"], **limits)
lock = None
for q in map(json.loads, sys.stdin):
    answer = {"id": q["id"], "ok": True}
    try:
        if q["op"] == "acquire":  # waits as the library does, with its default sleep of 0.1 s
            lock = client.lock(q["key"], timeout=ttl, blocking_timeout=2)
            answer["ok"] = lock.acquire()
        elif q["op"] == "renew":
            lock.reacquire()
        elif q["op"] == "check":  # with care, asked before each use
            answer["ok"] = lock.owned()
        else:
            lock.release()
    except redis.lock.LockError as err:
        answer.update(ok=False, error=str(err))
    except redis.RedisError as err:  # an exception ends the work, unless it is caught with care
        answer.update(ok=False, error=str(err), retry=careful)
    print(json.dumps(answer), flush=True)
