"""Sets that memory cannot keep: the loader against a plain reader of the same shards at its best depth, measured right before and
right after the loader, because a disk may be faster after a pause than in the long run; in a memory cgroup (v1 or v2) of a tenth of
the set, by order. Needs root and 6 GB of disk. Goals: random 0.95 of the plain reader, block and sequential 0.9, at most 1.05 bytes
read for each used. Compressed shards, whose speed is the decompressor's, have only the last goal. With --limits also in a third of
the set, and in more than the set, so that the loader maps it: its first epoch, with nothing in the page cache. With --loop also on
file systems in loop devices whose read-ahead is 128 and 8192 KiB. With --seeks, instead of all that, ffload reads a file system
that seeks like a disk with one arm (tests/slow_disk.py): samples of 12 KiB and 150 KiB in a tenth of their memory; goal: block
order at 20 times the rate of random order, if the disk's own rate allows it. Environment: BUILD, TMPDIR, SAMPLES (200,000 of 12
KiB), ROUNDS (5), SECONDS (1.5). Prints a table: the median of the rounds' ratios, and all of them, since the machine may do other
work. The last column compares the loader's rate with the rate of a loader that verifies nothing; goal: 0.9."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("BUILD", "build")
sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."), os.path.join(BUILD, "python")]
from memory_group import MemoryGroup, sync  # noqa: E402
import slow_disk  # noqa: E402
PROGRAM = os.path.join(BUILD, "tests/bench_ahead")
SAMPLES, ROUNDS = int(os.environ.get("SAMPLES", "200000")), int(os.environ.get("ROUNDS", "5"))
SECONDS = os.environ.get("SECONDS", "1.5")
GOAL = {"random": 0.95, "block": 0.9, "sequential": 0.9}
LIMITS = {"a tenth": 0.1, "a third": 1 / 3, "all": 1.5}


def limited(command, limit):
    """A command's output, run in a separate memory cgroup."""
    with MemoryGroup(limit) as group:
        return subprocess.run(group.inside(command), check=True, stdout=subprocess.PIPE).stdout


def spread(ratios):
    return f"{statistics.median(ratios):.2f} ({' '.join(f'{ratio:.2f}' for ratio in sorted(ratios))})"


def table(where, folder, kind):
    """A line for each limit and order."""
    data = os.path.join(folder, kind)
    subprocess.run([PROGRAM, "make", data, str(SAMPLES), kind], check=True)
    sync(data)
    shares = LIMITS if "--limits" in sys.argv and kind == "raw" else ("a tenth",)
    for share, order in ((share, order) for share in shares for order in GOAL):
        if kind == "zstd" and order == "random": # each sample needs a frame of about twenty
            continue
        # A separate process for each round, so that all have the same memory.
        limit = int(SAMPLES * 12288 * LIMITS[share])
        rounds = [json.loads(limited([PROGRAM, data, order, SECONDS, "1"], limit))["rounds"][0] for _ in range(ROUNDS)]
        plain, keeping = ([(one["before" + way] + one["between" + way]) / 2 for one in rounds] for way in ("", " keeping"))
        of = [spread([one["loader"] / rate for one, rate in zip(rounds, rates)]) for rates in (plain, keeping)]
        unchecked = f"{statistics.median(one['loader'] / one['unchecked'] for one in rounds):.2f}"
        print(f"| {where} | {kind} | {share} | {order} | {statistics.median(plain) / 1e6:,.0f}, "
              f"{statistics.median(keeping) / 1e6:,.0f} | "
              f"{statistics.median(one['loader'] for one in rounds) / 1e6:,.0f} | {of[0]} | {of[1]} | "
              f"{GOAL[order] if kind == 'raw' else ''} | "
              f"{max(one['read'] for one in rounds):.2f} | {unchecked if share != 'all' else ''} |", flush=True)
    shutil.rmtree(data)


def in_loop_device(folder, kib):
    image, mount = os.path.join(folder, "image"), os.path.join(folder, "mount")
    os.makedirs(mount, exist_ok=True)
    subprocess.run(["truncate", "-s", str(SAMPLES * 12288 * 5 // 4), image], check=True)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    device = subprocess.run(["losetup", "-f", "--show", "--direct-io=on", image], check=True, stdout=subprocess.PIPE,
                            text=True).stdout.strip()
    try:
        subprocess.run(["blockdev", "--setra", str(2 * kib), device], check=True) # of 512 bytes
        subprocess.run(["mount", device, mount], check=True)
        try:
            table(f"loop device, read-ahead {kib} KiB", mount, "raw")
        finally:
            subprocess.run(["umount", mount], check=True)
    finally:
        subprocess.run(["losetup", "-d", device], check=True)
        os.unlink(image)


def seeks(folder, side, count, memory, seconds):
    """A line for each order of a set on a disk with one arm."""
    import ffload # the rest needs no package
    source, place = os.path.join(folder, "set"), os.path.join(folder, "disk")
    subprocess.run([os.path.join(BUILD, "tests/make_huge"), source, "--count", str(count), "--side", str(side)], check=True)
    rate = {}
    for order in GOAL:
        with slow_disk.Mounted(source, place, 8, 150) as disk:
            loader = ffload.Loader(place, 256, order=order, memory=memory, workers=2, dtype="f16", as_="numpy", layout="contiguous", epochs=0)
            blocks, samples, began = loader.state_dict(), 0, time.monotonic()
            for images, _ in loader:
                samples += len(images)
                if time.monotonic() - began > seconds:
                    break
            rate[order] = samples / (time.monotonic() - began)
            del loader, images
        reads, _, read = disk.counted
        print(f"| {side} | {order} | {blocks['group']} of {blocks['block']} | {rate[order]:.1f} | {rate[order] / rate['random']:.1f} | "
              f"{read / reads / 1024:.0f} |", flush=True)
    shutil.rmtree(source)


def main():
    if "--seeks" in sys.argv:
        print("| side | order | blocks | samples/s | of random's | KiB a read |")
        print("|---|---|---|---|---|---|")
        with tempfile.TemporaryDirectory() as folder:
            seeks(folder, 45, 200000, "240M", 25)
            seeks(folder, 158, 200000, "3G", 40)
        return 0
    try:
        MemoryGroup(1 << 30).remove()
    except OSError as error:
        print(f"not measured: needs root and memory cgroups ({error})")
        return 0
    print("| disk | shards | memory, of the set | order | plain reader, MB/s; one that keeps what it reads | loader, MB/s of samples | "
          "of the first (each round) | of the second | goal | "
          "bytes read for each used | of the rate without checksums |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        table("as it is", folder, "raw")
        table("as it is", folder, "zstd")
        for kib in (128, 8192) if "--loop" in sys.argv else ():
            in_loop_device(folder, kib)
    return 0


if __name__ == "__main__":
    sys.exit(main())
