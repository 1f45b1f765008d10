"""Takes locks by the client. Prints `held` and waits until that lock is lost."""
import http.server
import json
import os
import sys
import threading
import time

from tenure_lock import Busy, Lock, Lost, Refused

url = sys.argv[1]


def expect(error, url=url, **options):
    try:
        with Lock(url, **options):
            sys.exit(f"{error} was expected: {options}")
    except error as raised:
        return str(raised)


class Frozen(http.server.BaseHTTPRequestHandler):
    """Gives a lock for 1 s, and answers no renewal."""

    life_ms = 1_000

    def do_POST(self):
        self.say(200, {"token": 1, "number": 1, "expires_in_ms": self.life_ms})

    def say(self, status, answer):
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_DELETE = do_POST

    def do_PUT(self):
        thawed.wait()

    def log_message(self, *text):
        pass


class Full(Frozen):
    """Gives a lock for 60 s, and its store refuses each renewal."""

    life_ms = 60_000

    def do_PUT(self):
        self.say(409, {"error": "the disk is full", "cure": "make room"})
        refusals.release()


class Page(http.server.BaseHTTPRequestHandler):
    """Answers with a page and the status that the path begins with."""

    def do_POST(self):
        self.send_response(int(self.path[1:4]))
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"<p/>")

    do_DELETE = do_POST

    def log_message(self, *text):
        pass


with Lock(url, "a/ü ?", ttl=9, note="a note") as lock:
    lock.check()
    first, token = lock._until, lock.token
    expect(Busy, key="a/ü ?", wait=0)
    expect(Busy, key="a/ü ?", wait=0.1, shared=True)
    while lock._until == first:  # until it is renewed
        time.sleep(0.01)
    lock.check()
with Lock(url, "a/ü ?") as lock:
    assert lock.token > token, "the token grows"
with Lock(url, "r", shared=True) as one, Lock(url, "r", shared=True) as two:
    assert one.token is None and two.remaining() > 0
with Lock(url, "s", permits=(2, 3)), Lock(url, "s", permits=(1, 3)):
    expect(Busy, key="s", permits=(1, 3), wait=0)
expect(Refused, key="a", ttl=0.5)
expect(Refused, key="a", shared=True, permits=(1, 3))
assert "'127.0.0.1:7400'" in expect(ValueError, url="127.0.0.1:7400", key="a")
assert "answers nothing" in expect(Refused, url="http://127.0.0.1:9", key="a", wait=0)
with http.server.HTTPServer(("127.0.0.1", 0), Page) as pages:
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    for status in (200, 301, 401, 404, 409):
        page = f"http://127.0.0.1:{pages.server_port}/{status}"
        assert f"answers {status}:" in expect(Refused, url=page, key="a")
    pages.shutdown()
with Lock(url, "f") as lock:
    if (child := os.fork()) == 0:
        lock.__exit__(None, None, None)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    expect(Busy, key="f", wait=0)  # the child has not released it
    try:
        lock.__enter__()
        sys.exit("one object held twice")
    except RuntimeError:
        lock.check()
lost, thawed = threading.Event(), threading.Event()
with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Frozen) as frozen:
    threading.Thread(target=frozen.serve_forever, daemon=True).start()
    try:
        ttl, address = 3_600, f"http://127.0.0.1:{frozen.server_port}"
        with Lock(address, "k", ttl=ttl, on_lost=lambda _: lost.set()):
            assert lost.wait(60), "on_lost is called although the renewal has no answer"
        sys.exit("it is lost")
    except Lost:
        thawed.set()
    frozen.shutdown()
refusals = threading.Semaphore(0)
with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Full) as full:
    threading.Thread(target=full.serve_forever, daemon=True).start()
    with Lock(f"http://127.0.0.1:{full.server_port}", "k", ttl=0.3) as lock:
        for _ in range(2):
            assert refusals.acquire(timeout=60), "it is renewed again"
        lock.check()
    full.shutdown()
lost.clear()
try:
    with Lock(url, "k", ttl=6, on_lost=lambda _: lost.set()) as lock:
        print("held", flush=True)
        assert lost.wait(60), "on_lost is called"
except Lost as error:
    print(error, flush=True)
