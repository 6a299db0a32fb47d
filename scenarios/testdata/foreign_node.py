#!/usr/bin/env python3
"""A node that shares nothing with the library: Python's standard library, its own lease, the node protocol.

It has no placement and no registry. It takes what is free, a few leases at a time, polls what it holds, and is safe by
four rules: an attempt is stamped before it is sent and trusted for no longer than that stamp allows; a renewal that
fails stops polling at once; renewal and release name owner and fence; a connection that missed an answer is given up,
and the next one begins with a read. Every wait has a time-out.

BUG=… breaks one of the rules; BUGS below has the names.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.parse
import uuid

BUGS = {
    "believe-forever": "never doubts a lease that it once got",
    "release-any": "releases by deleting the key, whoever holds it",
    "recreate": "a renewal makes the key anew if it is gone",
    "trust-from-answer": "a window counts from the answer, not from before the send",
    "renew-any": "a renewal extends the key, whoever holds it",
    "ignore-failed": "polls on when a renewal has failed",
    "fence-incr": "a fence is counted up from what Redis has, which may be nothing",
    "poll-after-lost": "polls on when it has said that the lease is lost",
}
BUG = os.environ.get("BUG", "")
if BUG and BUG not in BUGS:
    sys.exit(f"BUG={BUG}: choose from {', '.join(BUGS)}")

NEXT = "math.max(tonumber(redis.call('GET', KEYS[2]) or '0'), now[1] * 1000000 + now[2]) + 1"
if BUG == "fence-incr":
    NEXT = "tonumber(redis.call('GET', KEYS[2]) or '0') + 1"
ACQUIRE = """
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
local now = redis.call('TIME')
local fence = NEXT
redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', 86400000)
return fence
""".replace("NEXT", NEXT)
MINE = "redis.call('GET', KEYS[i]) == ARGV[1] and redis.call('GET', KEYS[i + 1]) == ARGV[2 + (i + 1) / 2]"
if BUG == "recreate":
    MINE = "redis.call('SET', KEYS[i], ARGV[1], 'NX', 'PX', ARGV[2]) or redis.call('GET', KEYS[i]) == ARGV[1]"
if BUG == "renew-any":
    MINE = "true"
RENEW = """
local kept = {}
for i = 1, #KEYS, 2 do
  local mine = MINE
  kept[#kept + 1] = mine and redis.call('PEXPIRE', KEYS[i], ARGV[2]) or 0
end
return kept
""".replace("MINE", MINE)
RELEASE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
return redis.call('DEL', KEYS[1])
"""


def millis(name, default):
    """The duration in an environment variable, as seconds."""
    return int(os.environ.get(name) or default) / 1000


TTL = millis("LEASESTORM_TTL_MS", 30000)
RENEW_EVERY = millis("LEASESTORM_RENEW_MS", 10000)
POLL_EVERY = millis("LEASESTORM_POLL_MS", 5000)
POLL_TIMEOUT = millis("LEASESTORM_POLL_TIMEOUT_MS", 1000 * min(POLL_EVERY, TTL / 3))
ANSWER_TIMEOUT = TTL / 12  # of one command at Redis, connecting included
MARGIN = max(TTL / 100, 0.005)  # for clocks that do not run at the same rate
TICK = TTL / 40
TAKE_AT_ONCE = 1  # of those that are free, in a tick: nodes that start together share without a plan
INSTANCE = f"{socket.gethostname()}-{time.time_ns()}-{uuid.uuid4().hex[:8]}"
now = time.monotonic  # CLOCK_MONOTONIC, the harness's clock


class Redis:
    """One connection. Any error or missing answer closes it; the next call opens another."""

    def __init__(self, url):
        self.url = urllib.parse.urlsplit(url)
        self.sock = self.rest = self.deadline = None

    def call(self, *args):
        """One command and its answer, as int, str, list or None; OSError when there is none in time."""
        self.deadline = now() + ANSWER_TIMEOUT
        try:
            if self.sock is None:
                self._connect()
            return self._exchange(*args)
        except OSError:
            self.close()
            raise

    def close(self):
        if self.sock is not None:
            self.sock.close()
            self.sock = None

    def _connect(self):
        # A command that got no answer may still arrive: only a connection that has answered a read may change anything.
        address = (self.url.hostname, self.url.port or 6379)
        self.sock, self.rest = socket.create_connection(address, left(self.deadline)), b""
        if self.url.password:
            self._exchange("AUTH", self.url.password)
        if self.url.path.strip("/"):
            self._exchange("SELECT", self.url.path.strip("/"))
        self._exchange("PING")

    def _exchange(self, *args):
        parts = [str(a).encode() for a in args]
        request = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)
        self.sock.settimeout(left(self.deadline))
        self.sock.sendall(request)
        return self._answer()

    def _answer(self):
        line = self._until(lambda: self.rest.find(b"\r\n"), 2)
        kind, text = line[:1], line[1:]
        if kind == b"-":
            raise OSError(text.decode())
        if kind == b":":
            return int(text)
        if kind == b"$":
            return None if text == b"-1" else self._until(lambda: self._has(int(text)), 2).decode()
        if kind == b"*":
            return [self._answer() for _ in range(int(text))]
        return text.decode()

    def _has(self, n):
        return n if len(self.rest) >= n + 2 else -1

    def _until(self, find, skip):
        while (at := find()) < 0:
            self.rest += receive(self.sock, self.deadline)
        found, self.rest = self.rest[:at], self.rest[at + skip:]
        return found


def left(deadline):
    """The seconds until the deadline; TimeoutError when it has passed, also while the process was frozen."""
    seconds = deadline - now()
    if seconds <= 0:
        raise TimeoutError("too late")
    return seconds


def receive(sock, deadline):
    """Some bytes before the deadline, else OSError."""
    sock.settimeout(left(deadline))
    data = sock.recv(65536)
    if not data:
        raise ConnectionError("closed by the other side")
    return data


class Term:
    """One unbroken ownership. All fields are guarded by Node.lock."""

    def __init__(self, session, fence, until):
        self.session, self.fence, self.until = session, fence, until
        self.certain = True
        self.over = threading.Event()  # no poll begins any more


class Node:
    def __init__(self):
        self.redis = Redis(os.environ["LEASESTORM_REDIS_URL"])
        target = urllib.parse.urlsplit(os.environ["LEASESTORM_TARGET_URL"])
        self.target = (target.hostname, target.port or 80)
        self.lock = threading.Lock()
        self.terms = {}  # session: Term
        self.pollers = {}  # session: Thread
        self.leftovers = []  # terms that are over, until Redis has answered their release
        self.sessions = []
        self.stopping = threading.Event()
        self.pause = threading.Event()
        self.renewed_at = self.looked_at = -TTL

    def say(self, event, term=None, **more):
        """One line of the node protocol. Callers hold self.lock, so that lines stand in the order of what happened."""
        line = {"event": event, "instance": INSTANCE, "t": time.monotonic_ns(), **more}
        if term is not None:
            line.update(session=term.session, fence=term.fence)
        try:
            os.write(1, (json.dumps(line) + "\n").encode())
        except OSError:
            os._exit(1)  # nobody listens any more

    # What happens to leases: one thread.

    def run(self):
        ready = False
        while not self.stopping.is_set():
            self.expire()
            try:
                self.renew()
                self.look()
                if not ready:
                    ready = True
                    with self.lock:
                        self.say("ready", protocol=1)
                self.tidy()
                self.acquire()
            except OSError as err:
                print(f"redis: {err}", file=sys.stderr, flush=True)
            self.stopping.wait(TICK)
        self.leave()

    def expire(self):
        if BUG == "believe-forever":
            return
        for term in list(self.terms.values()):
            if now() >= term.until:
                self.lose(term, "expired")

    def lose(self, term, reason):
        with self.lock:
            if BUG != "poll-after-lost":
                term.over.set()
            del self.terms[term.session]
            self.say("lost", term, reason=reason)
        self.leftovers.append(term)

    def renew(self):
        terms = list(self.terms.values())
        doubt = any(not t.certain for t in terms)
        if not terms or (not doubt and now() < self.renewed_at + RENEW_EVERY):
            return
        keys = [k for t in terms for k in keys_of(t.session)]
        sent = now()
        with self.lock:
            for term in terms:
                self.say("renewStart", term)
        try:
            kept = self.redis.call("EVAL", RENEW, len(keys), *keys, INSTANCE, int(TTL * 1000), *[t.fence for t in terms])
        except OSError as err:
            self.doubt(terms, str(err))
            raise
        self.renewed_at = sent
        for term, ok in zip(terms, kept):
            self.settle(term, ok, trusted_from(sent))

    def doubt(self, terms, reason):
        if BUG == "believe-forever":
            return
        with self.lock:
            for term in terms:
                term.certain = BUG == "ignore-failed"
                self.say("renewFailed", term, reason=reason)

    def settle(self, term, kept, until):
        if BUG == "believe-forever":
            with self.lock:
                self.say("renewed", term)
            return
        if not kept or now() >= until:
            self.lose(term, "held by another" if not kept else "answered too late")
            return
        with self.lock:
            if now() < term.until:  # a window that closed stays closed: expire() ends the term
                term.until, term.certain = until, True
                self.say("renewed", term, until=int(until * 1e9))

    def look(self):
        if now() < self.looked_at + TTL / 6:
            return
        keys, cursor = set(), "0"
        while True:
            cursor, some = self.redis.call("SCAN", cursor, "MATCH", "session:*", "COUNT", 1000)
            keys.update(some)
            if cursor == "0":
                break
        keys = sorted(keys)
        texts = self.redis.call("MGET", *keys) if keys else []
        self.sessions = [k.removeprefix("session:") for k, text in zip(keys, texts) if pollable(text)]
        self.looked_at = now()
        for session in set(self.terms) - set(self.sessions):
            self.release(self.terms[session], "not wanted any more")

    def acquire(self):
        free = [s for s in self.sessions if s not in self.terms and not self.polling(s)]
        if not free:
            return
        owners = self.redis.call("MGET", *[keys_of(s)[0] for s in free])
        for session in [s for s, owner in zip(free, owners) if owner is None][:TAKE_AT_ONCE]:
            sent = now()
            fence = self.redis.call("EVAL", ACQUIRE, 2, *keys_of(session), INSTANCE, int(TTL * 1000))
            until = trusted_from(sent)
            if fence and now() < until:
                self.begin(Term(session, fence, until))

    def begin(self, term):
        with self.lock:
            self.terms[term.session] = term
            belief = {} if BUG == "believe-forever" else {"until": int(term.until * 1e9)}
            self.say("acquired", term, **belief)
        poller = threading.Thread(target=self.poll, args=(term,), daemon=True)
        self.pollers[term.session] = poller
        poller.start()

    def polling(self, session):
        poller = self.pollers.get(session)
        return poller is not None and poller.is_alive()

    def release(self, term, reason):
        """Ends polling, then gives the lease back. It is said before the key goes: then another may own it at once."""
        term.over.set()
        self.pollers[term.session].join()  # a poll has a deadline
        with self.lock:
            del self.terms[term.session]
            self.say("released", term, reason=reason)
        self.leftovers.append(term)
        self.tidy()

    def give_back(self, term):
        key, fence_key = keys_of(term.session)
        if BUG == "release-any":
            self.redis.call("DEL", key)
            return True
        return self.redis.call("EVAL", RELEASE, 2, key, fence_key, INSTANCE, term.fence)

    def tidy(self):
        """Frees what terms that are over may have left in Redis, so that others need not wait for it."""
        while self.leftovers:
            self.give_back(self.leftovers[0])
            self.leftovers.pop(0)

    def leave(self):
        held = list(self.terms.values())
        for term in held:
            term.over.set()
        for term in held:
            try:
                self.release(term, "stopping")
            except OSError as err:
                print(f"release: {err}", file=sys.stderr, flush=True)
        with self.lock:
            self.say("stopped")

    # What happens at the target: one thread a term.

    def poll(self, term):
        due = now()
        while not term.over.wait(max(0, due - now())):
            deadline = self.check(term)
            if deadline is None:
                due = now() + TICK
                continue
            due = max(due + POLL_EVERY, now())
            reason = self.post(term, deadline)
            with self.lock:
                self.say("pollEnd", term, reason=reason)

    def check(self, term):
        """When a poll that begins now must have ended, inside the trust window; None if none may begin."""
        with self.lock:
            deadline = now() + POLL_TIMEOUT
            if term.over.is_set():
                return None
            lost = self.terms.get(term.session) is not term  # only with a bug: else it is over
            if BUG != "believe-forever" and not lost and not (term.certain and deadline < term.until):
                return None
            self.say("pollStart", term)
            if self.pause.is_set():
                self.pause.clear()
                self.say("paused", term)
                os.kill(os.getpid(), signal.SIGSTOP)
            return deadline

    def post(self, term, deadline):
        """Polls the target; returns why it failed, or an empty string."""
        request = (f"POST /poll/{term.session} HTTP/1.1\r\nHost: {self.target[0]}\r\nX-Instance: {INSTANCE}\r\n"
                   f"X-Fence: {term.fence}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        try:
            with socket.create_connection(self.target, left(deadline)) as sock:
                sock.settimeout(left(deadline))
                sock.sendall(request.encode())
                head = b""
                while b"\r\n" not in head:
                    head += receive(sock, deadline)
        except OSError as err:
            return str(err)
        status = head.split(b" ")[1]
        return "" if status.startswith(b"2") else f"status {status.decode()}"


def keys_of(session):
    key = f"poll:lease:{session}"
    return key, f"{{{key}}}:fence"


def trusted_from(sent):
    """The end of the trust window that a command gives which was about to be sent then."""
    return (now() if BUG == "trust-from-answer" else sent) + TTL - MARGIN


def pollable(text):
    try:
        return text is not None and not json.loads(text).get("isPaused")
    except ValueError:
        return False


def main():
    node = Node()
    signal.signal(signal.SIGTERM, lambda *_: node.stopping.set())
    signal.signal(signal.SIGUSR1, lambda *_: node.pause.set())
    if os.environ.get("LEASESTORM_PAUSE") == "check-send":
        node.pause.set()
    node.run()


if __name__ == "__main__":
    main()
