"""A lease adapter (docs/lease-protocol.md) of PostgreSQL rows with a deadline, by psycopg2 (Debian's python3-psycopg2)."""
# It needs this table: create table lease (key text primary key, owner text, fence bigint, expires timestamptz)
import json, os, select, sys, time
import psycopg2, psycopg2.extensions as pg

UNTIL = "now() + %(ttl_ms)s * interval '1 ms'"
OWNED = "where key = %(key)s and owner = %(owner)s and fence = %(fence)s and expires > now()"
SQL = {
    "acquire": f"""insert into lease values (%(key)s, %(owner)s, 1, {UNTIL}) on conflict (key) do update
        set owner = excluded.owner, fence = lease.fence + 1, expires = excluded.expires where lease.expires < now() returning fence""",
    "renew": f"update lease set expires = {UNTIL} {OWNED} returning fence",
    "release": f"update lease set expires = '-infinity' {OWNED} returning fence"}

def wait(conn):  # a second at most for each packet
    while (state := conn.poll()) != pg.POLL_OK:
        if not any(select.select([conn] * (state == pg.POLL_READ), [conn] * (state == pg.POLL_WRITE), [], 1)):
            raise psycopg2.OperationalError("timeout")

pg.set_wait_callback(wait)
conn, fences = None, {}
for q in map(json.loads, sys.stdin):
    sent, q["owner"], q["fence"] = time.time() * 1000, os.environ["LEASESTORM_INSTANCE"], fences.get(q["key"])
    try:
        if conn is None:
            conn = psycopg2.connect("host={} port={} user=postgres".format(*os.environ["LEASESTORM_PROXY_POSTGRES"].split(":")))
            conn.autocommit = True
        with conn.cursor() as cursor:
            cursor.execute(SQL.get(q["op"], SQL["renew"]), q)  # a check renews, too
            fence = fences[q["key"]] = (cursor.fetchone() or [0])[0]
        answer = {"ok": fence > 0, "fence": fence, "until_unix_ms": int(sent + q["ttl_ms"] * 0.99)}
    except psycopg2.Error as err:
        conn = conn and conn.close()
        answer = {"ok": False, "error": str(err), "retry": True}
    print(json.dumps({"id": q["id"], **answer}), flush=True)
