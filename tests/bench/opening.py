"""Opening a packed set of 10 million photographs (224 px, f16, 256 MiB shards; holes on the disk) and
reading one sample's entry and label: time and resident memory, the best of several processes.
Environment: BUILD, BENCH_DIR."""
import json
import os
import shutil
import subprocess
import tempfile

BUILD = os.environ.get("BUILD", "build")


def main():
    work = tempfile.mkdtemp(prefix="ffbench", dir=os.environ.get("BENCH_DIR"))
    subprocess.run([f"{BUILD}/tests/make_huge", f"{work}/huge", "--count", "10000000"], check=True)
    runs = [json.loads(subprocess.run([f"{BUILD}/tests/bench_open", f"{work}/huge"], check=True,
                                      capture_output=True).stdout) for _ in range(20)]
    shards = sum(name.endswith(".ffs") for name in os.listdir(f"{work}/huge"))
    print("| opening | best | median | goal |\n|---|---|---|---|")
    for name, unit, key, scale, goal in (("time", "ms", "milliseconds", 1, "5 ms"),
                                         ("resident memory", "MiB", "resident_kib", 1024, "10 MiB")):
        values = sorted(run[key] / scale for run in runs)
        print(f"| 10,000,000 samples in {shards:,} shards: {name} | {values[0]:.2f} {unit} | "
              f"{values[len(values) // 2]:.2f} {unit} | {goal} |")
    shutil.rmtree(work)


main()
