"""kazoo's Lock, driven by the same lines as the sides of `src/contest/side.rs`."""

import logging
import sys
import threading
import time

from kazoo.client import KazooClient

TTL_S = 30


def turns(client, path, tasks, own, seconds):
    """The longest wait, the overlaps and the turns of each task, as threads take them."""
    counts, longest, inside, overlaps = [0] * tasks, [0] * tasks, [], []
    end = time.monotonic() + seconds

    def work(task):
        name = f"{path}-{task}" if own else path
        while (asked := time.monotonic_ns()) < end * 1e9:
            lock = client.Lock(name)
            lock.acquire()
            held = time.monotonic_ns()
            longest[task] = max(longest[task], held - asked)
            if not own:
                inside.append(task)
                if len(inside) > 1:
                    overlaps.append(task)
                time.sleep(0)
                inside.remove(task)
            counts[task] += held < end * 1e9
            lock.release()

    threads = [threading.Thread(target=work, args=(task,)) for task in range(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [max(longest), len(overlaps), *counts]


def free(client, path, seconds):
    """How many ns a lock and a release take, one after the other."""
    start = now = time.monotonic_ns()
    count = 0
    while now < start + seconds * 1e9:
        lock = client.Lock(path)
        lock.acquire()
        lock.release()
        count += 1
        now = time.monotonic_ns()
    return (now - start) // count


def main():
    url, key = sys.argv[1:]
    logging.disable()
    client = KazooClient(hosts=url.removeprefix("zookeeper://"), timeout=TTL_S)
    client.start()
    path = f"/kazoo/{key}"
    print("ready", flush=True)
    lock = None
    for line in sys.stdin:
        match line.split():
            case ["lock"]:
                lock = client.Lock(path)
                lock.acquire()
                print(time.monotonic_ns(), 0, flush=True)
            case ["release"]:
                now = time.monotonic_ns()
                lock.release()
                print(now, flush=True)
            case ["free", seconds]:
                print(free(client, f"{path}-free", float(seconds)), flush=True)
            case ["turns", tasks, keys, seconds]:
                own = keys == "own"
                print(*turns(client, f"{path}-turns", int(tasks), own, float(seconds)), flush=True)


main()
