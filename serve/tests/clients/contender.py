"""Takes a lock again and again. Writes a line for each moment at which it relied on the lock.

The clock is one of the machine, so the referee can compare the moments of all contenders.
"""
import random
import sys
import time

from tenure_lock import Lock, Lost, now

url, journal = sys.argv[1:]
with open(journal, "a", buffering=1) as journal:
    while True:
        try:
            with Lock(url, "k", ttl=1.0) as lock:
                for _ in range(random.choice([10, 10, 10, 60])):
                    moment = now()
                    lock.check()
                    journal.write(f"held {lock.token} {moment:.9f}\n")
                    time.sleep(0.02)
        except Lost as error:
            journal.write(f"lost: {error}\n")
