"""Locks of `tenure serve --role lock`, for Python 3.8 or newer. One file, no dependencies.

    with Lock("http://127.0.0.1:7400", "invoices/42") as lock:
        ledger.write(entry, lock.token)     # the token is a fencing token
        lock.check()                        # raises Lost if the lock is lost

A thread renews the lock. `check()` reads the clock: a program that was stopped for longer than
`ttl` has lost the lock. The end of the block raises Lost, too. Times are in seconds. A server that
has never answered is tried for about 10 s. A program that a signal ends keeps its lock for `ttl`.
"""
import http.client, json, os, socket, threading, time, urllib.parse, uuid
# This clock counts while the machine sleeps, where the system has it.
CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
now = time.monotonic if CLOCK is None else lambda: time.clock_gettime(CLOCK)
KINDS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}

class Lost(Exception): """The lock is lost: stop the work."""
class Busy(Exception): """The lock was not free within `wait`."""
class Refused(Exception): """The server refuses or gives no answer. It says what to do."""

class Lock:
    """A lock that is held within one `with`. Without `wait` it waits without a limit."""

    def __init__(self, url, key, ttl=30.0, wait=None, shared=False, permits=None, note="",
                 token=None, on_lost=lambda lost: None):
        self._url = urllib.parse.urlsplit(url)
        if self._url.scheme not in KINDS or not self._url.netloc:
            raise ValueError(f"the address {url!r} must begin with http:// or https:// and a host")
        self._path = f"{self._url.path.rstrip('/')}/v1/locks/{urllib.parse.quote(key, safe='')}"
        self._headers = {"Content-Type": "application/json", "Tenure-Request": "1",
                         **({"Authorization": f"Bearer {token}"} if token else {})}
        self._body = {"id": uuid.uuid4().hex, "ttl_ms": int(ttl * 1000), "note": note,
                      "owner": f"{socket.gethostname()} pid {os.getpid()}",
                      "mode": "shared" if shared else None if permits else "exclusive",
                      "permits": dict(zip(("take", "of"), permits)) if permits else None}
        self._wait, self._on_lost = float("inf") if wait is None else wait, on_lost
        self._ttl, self._cause, self._until, self._silent_until = ttl, None, 0.0, None
        self._ended, self._used = threading.Event(), threading.Lock()

    def __enter__(self):
        if not self._used.acquire(blocking=False):
            raise RuntimeError("one Lock object holds once: make another")
        self._pid, end = os.getpid(), now() + self._wait
        try:
            while not self._acquire(min(20.0, max(0.0, end - now()))): pass
            threading.Thread(target=self._renew, daemon=True).start()
        except BaseException:
            self._send("DELETE")  # the ticket may wait
            raise
        return self

    def _acquire(self, wait):
        status, answer = self._send("POST", wait + 10, wait_ms=int(wait * 1000))
        if "expires_in_ms" in answer:
            self.token, self._number = answer["token"], answer["number"]
            return self.remaining() > 0
        if status or self._silent_until is None:
            self._silent_until = float("inf") if status else now() + 10
        is_over = wait == 0 or now() > self._silent_until or status not in (0, 429, 502, 503, 504)
        if is_over and status not in (202, 423) and "cause" not in answer:
            raise Refused(f"{answer.get('error')}: {answer.get('cure', 'check the address')}")
        if wait == 0:
            raise Busy(answer.get("error", "the lock is busy"))
        if "cause" in answer:  # the ticket was removed: take another
            self._send("DELETE")
            self._body["id"] = uuid.uuid4().hex
        if status != 202:
            time.sleep(0.2)
        return False

    def remaining(self):
        """The time for which the lock is held without another renewal."""
        return 0.0 if self._cause else max(0.0, self._until - now())

    def check(self):
        """Raises Lost if the lock is not held any more."""
        if not self.remaining():
            self._cause = self._cause or "the lock is lost: it was not renewed in time"
            raise Lost(self._cause)

    def __exit__(self, kind, error, trace):
        self._ended.set()
        try:
            if kind is None:
                self.check()
        finally:
            self._send("DELETE")  # without an answer the lock expires

    def _renew(self):
        pause = self._ttl / 3
        while not self._ended.wait(min(pause, self.remaining())):
            patience = max(0.01, min(self._ttl / 3, self.remaining()))
            _, answer = self._send("PUT", patience, number=self._number)
            pause = self._ttl / (3 if "expires_in_ms" in answer else 10)
            if "cause" in answer:  # without it, the store refuses the renewal and keeps the lock
                self._cause = self._cause or answer.get("error")
            try:
                self.check()
            except Lost as lost:
                return self._ended.is_set() or self._on_lost(lost)

    def _send(self, method, patience=2.0, **more):
        if os.getpid() != self._pid: return 0, {}  # a forked child does not hold the lock
        body, sent, status = json.dumps({**self._body, **more}).encode(), now(), 0
        connection = KINDS[self._url.scheme](self._url.netloc, timeout=min(patience, 10.0))
        try:
            connection.connect()
            connection.sock.settimeout(max(0.01, sent + patience - now()))
            connection.request(method, self._path, body, self._headers)
            response = connection.getresponse()
            status = response.status
            answer = dict(json.load(response))
            if "expires_in_ms" in answer:
                self._until = sent + answer["expires_in_ms"] / 1000
            return status, answer
        except (OSError, TypeError, ValueError, http.client.HTTPException) as error:
            return status, {"error": f"{self._url.geturl()} answers {status or 'nothing'}: {error}"}
        finally:
            connection.close()
