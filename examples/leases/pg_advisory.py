"""A lease adapter (docs/lease-protocol.md) of PostgreSQL's advisory locks, by psycopg2 (Debian's python3-psycopg2)."""
# The server frees a lock when its connection ends. The owner notices at its next request.
import json, os, select, sys
import psycopg2, psycopg2.extensions as pg

SQL = {"acquire": "select pg_try_advisory_lock(hashtextextended(%s, 0))", "release": "select pg_advisory_unlock(hashtextextended(%s, 0))"}

def wait(conn):  # a second at most for each packet
    while (state := conn.poll()) != pg.POLL_OK:
        if not any(select.select([conn] * (state == pg.POLL_READ), [conn] * (state == pg.POLL_WRITE), [], 1)):
            raise psycopg2.OperationalError("timeout")

pg.set_wait_callback(wait)
conn, held = None, set()
for q in map(json.loads, sys.stdin):
    try:
        if conn is None:
            conn = psycopg2.connect("host={} port={} user=postgres".format(*os.environ["LEASESTORM_PROXY_POSTGRES"].split(":")))
            conn.autocommit = True
        with conn.cursor() as cursor:
            cursor.execute(SQL.get(q["op"], "select true"), [q["key"]])  # renew and check: whether the connection lives
            ok = cursor.fetchone()[0] and (q["op"] == "acquire" or q["key"] in held)
        (held.add if ok and q["op"] != "release" else held.discard)(q["key"])
        answer = {"ok": ok}
    except psycopg2.Error as err:
        for key in held:
            print(json.dumps({"event": "lost", "key": key}), flush=True)
        conn = conn and conn.close()  # the next request opens another, which has no locks
        held.clear()
        answer = {"ok": False, "error": str(err)}
    print(json.dumps({"id": q["id"], **answer}), flush=True)
