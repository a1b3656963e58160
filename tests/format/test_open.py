"""Opening a set of very many samples: fast, in little memory, and without opening every shard; a missing shard
is named when it is used. The set's files are sparse (tests/programs/make_huge.c)."""
# Needs: ffinspect tests/bench_open tests/make_huge
import json
import os
import resource
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

sys.dont_write_bytecode = True


def milliseconds_of_looks(folder):
    began = time.perf_counter()
    for name in os.listdir(folder):
        os.stat(os.path.join(folder, name))
    return 1e3 * (time.perf_counter() - began)


def main():
    work = tempfile.mkdtemp()
    folder = os.path.join(work, "huge")
    made = tap.run([tap.program("make_huge"), folder, "--count", "300000", "--side", "32", "--shard-size", "600K"])
    tap.ok(made.returncode == 0, "300,000 samples in 3,000 shards are made", made.stderr.decode())
    shards = sorted(name for name in os.listdir(folder) if name.endswith(".ffs"))
    tap.ok(len(shards) > 2000, "there are many shards", len(shards))
    # By turns with a look at each shard: a loaded machine may disturb one run of either, not all.
    runs, looks = [], []
    for _ in range(5):
        runs.append(tap.run([tap.program("bench_open"), folder, "3"]))
        looks.append(milliseconds_of_looks(folder))
    results = [json.loads(done.stdout) for done in runs if done.returncode == 0]
    tap.ok(len(results) == 5, "it opens and an entry and a label are read", runs[0].stderr.decode())
    if os.environ.get("SANITIZE") or os.environ.get("CROSS"):
        tap.skip("in less than 0.4 of the time of a look at each shard", "a sanitizer, or an emulator")
    else:
        best = min(result["milliseconds"] for result in results)
        tap.ok(best < 0.4 * min(looks), "in less than 0.4 of the time of a look at each shard",
               "%.2f of %.2f ms" % (best, min(looks)))
        most = max(result["resident_kib"] for result in results)
        tap.ok(most < 10 << 10, "under 10 MiB stay resident", "%d KiB" % most)
    # A scan of the index reads it ahead: faults that find a page in memory count as minor, however slow the disk is.
    scan = [os.path.join(tap.BUILD, "ffinspect"), folder, "--json"]
    index = os.path.join(folder, "index.ffx")
    file = os.open(index, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_majflt
    done = tap.run(scan)
    faults = resource.getrusage(resource.RUSAGE_CHILDREN).ru_majflt - before
    blocks = os.path.getsize(index) >> 16
    tap.ok(done.returncode == 0 and blocks > 300 and faults < blocks, "a scan of an index that is not in memory waits for less than a page in 16",
           "%d of %d" % (faults, 16 * blocks))
    # What opening does not check is found when it is used. Every third shard is tried, and the last.
    os.remove(os.path.join(folder, "shard-000001.ffs"))
    done = tap.run([tap.program("bench_open"), folder, "1"])
    tap.ok(done.returncode == 0, "a missing shard does not keep the others from being read", done.stderr.decode())
    inspect = os.path.join(tap.BUILD, "ffinspect")
    done = tap.run([inspect, folder, "--sample", "100"])
    tap.ok(done.returncode in (65, 74) and b"shard-000001.ffs" in done.stderr, "its samples are refused by its name",
           done.stderr.decode())
    done = tap.run([inspect, folder, "--sample", "0"])
    tap.ok(done.returncode == 0, "samples of others are read", done.stderr.decode())
    last = max(name for name in os.listdir(folder) if name.endswith(".ffs"))
    os.rename(os.path.join(folder, last), os.path.join(work, last))
    done = tap.run([tap.program("bench_open"), folder, "1"])
    tap.ok(done.returncode == 74 and last.encode() in done.stderr, "the last one is looked at", done.stderr.decode())
    os.rename(os.path.join(work, last), os.path.join(folder, last))
    os.remove(os.path.join(folder, "shard-000000.ffs"))
    done = tap.run([tap.program("bench_open"), folder, "1"])
    tap.ok(done.returncode == 74 and b"shard-000000.ffs" in done.stderr, "one that is looked at is named at opening",
           done.stderr.decode())
    shutil.rmtree(work)
    tap.finish()


main()
