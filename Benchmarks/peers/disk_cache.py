"""Python diskcache with its defaults: disk_cache.py write|read FOLDER ROUND COUNT SIZE prints µs per entry."""

import os
import sys
import time

import diskcache

action, folder, round_, count, size = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
cache = diskcache.Cache(folder, size_limit=1 << 40)
keys = [f"http://bench.example/{round_}/{number}" for number in range(count)]
bodies = [os.urandom(size) for _ in range(16)]
if action == "write":
    start = time.perf_counter()
    for number, key in enumerate(keys):
        cache.set(key, bodies[number % 16])
    seconds = time.perf_counter() - start
else:
    start = time.perf_counter()
    for key in keys:
        if len(cache.get(key, b"")) != size:
            sys.exit(f"{key} is missing")
    seconds = time.perf_counter() - start
cache.close()
print(seconds / count * 1e6)
