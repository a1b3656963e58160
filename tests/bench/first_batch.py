#!/usr/bin/python3
"""The first batch of a set of 100 GB behind a server: seconds from the loader's construction, ffload imported before, and the megabytes that
the machine received by then, for each order. The set's files are sparse (tests/programs/make_huge.c); nginx serves them over a link of
MBIT, and the cache is empty. Medians of ROUNDS, the orders taking turns. Goals: 2 s, 40 MB.

Needs root, ip, tc and nginx. Environment: BUILD, COUNT (332,000 samples of 3 x 224 x 224 in f16), MBIT (1000), ROUNDS (3), BENCH_DIR."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

BATCH, ORDERS = 64, ("sequential", "random", "block")
COUNT, MBIT, ROUNDS = (int(os.environ.get(name, value)) for name, value in (("COUNT", "332000"), ("MBIT", "1000"), ("ROUNDS", "3")))
INSIDE = """
import json, sys, time
import ffload
def received(): return int(open("/sys/class/net/eth0/statistics/rx_bytes").read())
before, began = received(), time.perf_counter()
for batch in ffload.Loader(sys.argv[1], int(sys.argv[2]), order=sys.argv[3], workers=2, as_="numpy"):
    print(json.dumps([time.perf_counter() - began, (received() - before) / 1e6]))
    break
"""


def run():
    import storage
    build = os.path.abspath(os.environ.get("BUILD", "build"))
    with tempfile.TemporaryDirectory(prefix="ffbench", dir=os.environ.get("BENCH_DIR")) as place:
        os.chdir(place)
        subprocess.run([build + "/tests/make_huge", "huge", "--count", str(COUNT)], check=True)
        environment = dict(os.environ, FFPACK_CACHE=place + "/cache", PYTHONPATH=build + "/python")
        found = {order: [] for order in ORDERS}
        with storage.served(MBIT) as server:
            for order in ORDERS * ROUNDS:
                shutil.rmtree("cache", ignore_errors=True)
                command = [*server.inside, sys.executable, "-c", INSIDE, storage.BUCKET + "/huge", str(BATCH), order]
                found[order].append(json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout))
        gigabytes = storage.size("huge") / 1e9
        os.chdir("/")
    print(f"{COUNT:,} samples, {gigabytes:.0f} GB, batches of {BATCH}, {MBIT} Mbit/s\n\n| order | first batch, s | received by then, MB |\n|---|---|---|")
    for order, each in found.items():
        seconds, received = map(statistics.median, zip(*each))
        print(f"| {order} | {seconds:.2f} | {received:.1f} |")


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    import slow_network
    missing = slow_network.missing() or (None if shutil.which("nginx", path="/usr/sbin:/usr/bin") else "there is no nginx: package nginx-light")
    if missing:
        print(f"first_batch: skipped ({missing})")
    else:
        run()
