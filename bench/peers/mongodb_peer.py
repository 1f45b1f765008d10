"""The floor's two commands as pymongo sends them, obeying the lines of `src/contest/side.rs` that it is asked."""

import sys
import time
import uuid

from pymongo import MongoClient
from pymongo.write_concern import WriteConcern


def free(records, key, seconds):
    """How many ns a lock and a release take, one after the other."""
    start = now = time.monotonic_ns()
    count = 0
    while now < start + seconds * 1e9:
        owner = uuid.uuid4().hex
        records.find_one_and_update({"_id": key}, {"$set": {"owner": owner}}, {"owner": 1}, upsert=True)
        records.find_one_and_update({"_id": key, "owner": owner}, {"$unset": {"owner": ""}}, {"_id": 1})
        count += 1
        now = time.monotonic_ns()
    return (now - start) // count


def main():
    url, key = sys.argv[1:]
    safe = WriteConcern(w="majority", j=True)
    records = MongoClient(url)["bench"].get_collection("pymongo", write_concern=safe)
    records.find_one({})
    print("ready", flush=True)
    for line in sys.stdin:
        match line.split():
            case ["free", seconds]:
                print(free(records, key, float(seconds)), flush=True)


main()
