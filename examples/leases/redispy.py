"""A lease adapter (docs/lease-protocol.md) of redis-py's Lock (pip install redis). It knows no deadline: --check asks before each poll."""
import json, os, sys
import redis, redis.lock

client = redis.Redis.from_url(os.environ["LEASESTORM_REDIS_URL"], socket_timeout=1, socket_connect_timeout=1)
locks = {}
for q in map(json.loads, sys.stdin):
    key, answer = q["key"], {"id": q["id"], "ok": True}
    try:
        if q["op"] == "acquire":
            locks[key] = client.lock(key, timeout=q["ttl_ms"] / 1000, blocking=False, thread_local=False)
            answer["ok"] = locks[key].acquire()
        elif q["op"] == "renew":
            locks[key].reacquire()
        elif q["op"] == "check":
            answer["ok"] = locks[key].owned()
        else:
            locks[key].release()
    except redis.lock.LockError as err:
        answer.update(ok=False, error=str(err))
    except redis.RedisError as err:
        answer.update(ok=False, error=str(err), retry=True)
    print(json.dumps(answer), flush=True)
