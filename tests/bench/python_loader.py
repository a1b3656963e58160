"""ffload, the Python package: its loader compared with the C library's, FFCV's, torchvision's DataLoader and MosaicML Streaming's,
on batches of the same images in random order, each with the number of workers that is best for it; how long importing and opening
take; how much memory loaders in several processes need. Prints Markdown. FFCV and Streaming come from PyPI (environments.py), or
are skipped with the reason. Usage: python_loader.py [library] [peers] [crops] [views] [start] [memory]. Environment: BUILD, ROUNDS (5), QUIET (0.1:
processors that other processes may use in a round; otherwise the round is repeated), PEERS_DIR, BENCH_DIR."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import environments
import rounds

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
PACKAGE = {"PYTHONPATH": os.path.join(BUILD, "python")}
MEAN, STD = "0.4914,0.4822,0.4465", "0.247,0.2435,0.2616"
IMAGES = {"32": (20000, 32, 32), "224": (1024, 224, 224), "256": (1024, 256, 256), "photographs": (256, 375, 500)}
AHEAD = 8 # the most batches that may be ready when a round begins
AUGMENT = {"crop": "crop=4,flip", "rrc": "rrc=224,flip"}


def call(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1][:200])


# ---- the sets ------------------------------------------------------------------------------------


def arrays(size):
    """A folder of images.npy and labels.npy; made once."""
    import numpy
    folder = "arrays-" + size
    if not os.path.exists(folder):
        os.mkdir(folder)
        dice = numpy.random.RandomState(0)
        numpy.save(folder + "/images.npy", dice.randint(0, 256, (*IMAGES[size], 3), "uint8"))
        numpy.save(folder + "/labels.npy", numpy.arange(IMAGES[size][0]) % 10)
    return os.path.abspath(folder)


def files(size):
    """JPEG files, smooth like photographs, in a folder for each class; made once."""
    import numpy
    from PIL import Image
    folder = "files-" + size
    if not os.path.exists(folder):
        dice = numpy.random.RandomState(0)
        for i in range(IMAGES[size][0]):
            os.makedirs(f"{folder}/{i % 10}", exist_ok=True)
            small = Image.fromarray(dice.randint(0, 256, (24, 32, 3), "uint8"))
            small.resize(IMAGES[size][:0:-1], Image.BICUBIC).save(f"{folder}/{i % 10}/{i}.jpg", quality=90)
    return os.path.abspath(folder)


def packed(size, dtype):
    """The same images, packed: f16, normalized, or u8."""
    out = f"packed-{size}-{dtype}"
    if not os.path.exists(out):
        layout = "hwc" if dtype == "u8" and size in ("32", "224") else "chw"
        call(BUILD + "/ffpack", arrays(size), "-o", out, "--dtype", dtype, "--layout", layout, "--mean", MEAN, "--std", STD)
    return os.path.abspath(out)


def written(peer, python, size):
    """The same images in the peer's own format."""
    out = os.path.abspath(f"{peer}-{size}")
    if not os.path.exists(out):
        call(python, HERE + "/sides.py", json.dumps({"side": peer, "write": arrays(size), "data": out}))
    return out


# ---- the sides -----------------------------------------------------------------------------------


def script(python, seconds, **options):
    return rounds.Side([python, HERE + "/sides.py", json.dumps(options)], seconds, PACKAGE if options["side"] == "ffload" else None)


def ours(case, workers, batch=256):
    size, augment, dtype = case
    stored = "u8" if dtype == "u8" or augment == "rrc" else "f16"
    # Random resized crops are compared with those of torchvision: contiguous images, 64 per batch.
    if augment == "rrc":
        batch = 64
    return script(sys.executable, 1, side="ffload", data=packed(size, stored), batch=batch, workers=workers, augment=augment, dtype=dtype,
                  ahead=AHEAD, layout="contiguous" if augment == "rrc" else "channels_last")


def library(case, workers):
    size, augment, dtype = case
    return rounds.Side([BUILD + "/tests/bench_library", packed(size, "f16"), str(AHEAD), "batch_size", "256", "augment", AUGMENT[augment],
                        "dtype", dtype, "layout", "channels_last", "workers", str(workers)], 1)


def peer(name, python, case, workers):
    size, augment, dtype = case
    if name == "ffload":
        return ours(case, workers)
    if name == "ffcv":
        return script(python, 1, side=name, data=written(name, python, size), batch=256, workers=workers, augment=augment, dtype=dtype,
                      ahead=5)
    data = arrays(size) if name in ("torchvision", "torch") else files(size) if name == "files" else written(name, python, size)
    return script(python, 2, side="torchvision" if name == "torch" else name, data=data, batch=256 if size == "32" else 64,
                  workers=workers, augment=augment, dtype=dtype, ahead=2 * workers)


def best(name, python, case):
    """(the side with the number of workers that is best for it, that number)."""
    sides = {}
    for workers in (1, 2) if name in ("ffload", "ffcv") else (0, 1, 2):
        sides[workers] = peer(name, python, case, workers)
    tried, _ = rounds.alternate(sides, 1)
    workers = max(tried, key=tried.get)
    for other, side in sides.items():
        if other != workers:
            side.close()
    return sides[workers], workers


# ---- the tables ----------------------------------------------------------------------------------


def against_library():
    print("| crop=4,flip, f16 to f32, batch 256 | threads | C, samples/s | Python, samples/s | ratio | goal | others' processors |")
    print("|---|---|---|---|---|---|---|")
    for size in ("32", "224"):
        for workers in (1, 2):
            case = (size, "crop", "f32")
            sides = {"C": library(case, workers), "Python": ours(case, workers)}
            rates, others = rounds.alternate(sides, ROUNDS)
            for side in sides.values():
                side.close()
            print(f"| 3x{size}x{size} | {workers} | {statistics.median(rates['C']):,.0f} | {statistics.median(rates['Python']):,.0f} | "
                  f"{rounds.ratio(rates, 'Python', 'C'):.3f} | 0.95 | {others:.2f} |", flush=True)


NAMES = {"ffcv": "FFCV", "torchvision": "torchvision's DataLoader", "torch": "the DataLoader of PyPI's torchvision",
         "streaming": "MosaicML Streaming's", "files": "torchvision's DataLoader, ImageFolder"}
CASES = [ # size, augmentation, dtype of the batches, {peer: goal}
    ("32", "crop", "f32", {"ffcv": 3, "torchvision": 50, "streaming": 10}),
    ("32", "crop", "u8", {"ffcv": 3}),
    ("224", "crop", "f32", {"ffcv": 3, "streaming": 10}),
    ("224", "crop", "u8", {"ffcv": 3}),
    ("photographs", "rrc", "f32", {"ffcv": None, "torchvision": 12, "files": 12}),
]
CROPS = [("256", "rrc", dtype, {"ffcv": 4, "torch": 20}) for dtype in ("f32", "u8")]
VIEWS = [("32", "views", "f32", {"torchvision": None}), ("224", "views", "f32", {"torchvision": None})]


def peers(cases=CASES):
    pythons = {"ffload": sys.executable, "torchvision": sys.executable, "files": sys.executable}
    for name in sorted({name for *_, goals in cases for name in goals} & set(environments.PACKAGES)):
        pythons[name], reason = environments.python_of(name)
        if reason:
            print(f"{NAMES[name]}: skipped ({reason})\n")
    print("| samples a second | batches of | ours (workers) | the other's (workers) | ratio | goal | others' processors |")
    print("|---|---|---|---|---|---|---|")
    for size, augment, dtype, goals in cases:
        case, sides, workers = (size, augment, dtype), {}, {}
        what = f"{'two views, ' * (augment == 'views')}{augment if augment == 'rrc' else 'crop=4'},flip of 3x{'x'.join(map(str, IMAGES[size][1:]))}"
        for name in ("ffload", *goals):
            try:
                if pythons[name]:
                    sides[name], workers[name] = best(name, pythons[name], case)
            except RuntimeError as error:
                print(f"| {NAMES.get(name, name)}: failed: {error} | | | | | | |")
                if name == "ffload":
                    break
        if "ffload" not in sides:
            continue
        rates, others = rounds.alternate(sides, ROUNDS)
        for name, goal in goals.items():
            if name in sides:
                print(f"| {NAMES[name]}, {what} | {dtype} | {statistics.median(rates['ffload']):,.0f} ({workers['ffload']}) | "
                      f"{statistics.median(rates[name]):,.0f} ({workers[name]}) | {rounds.ratio(rates, 'ffload', name):.1f} | {goal or ''} | "
                      f"{others:.2f} |", flush=True)
        for side in sides.values():
            side.close()


START = """
import sys, time
began = time.perf_counter()
import ffload
imported = time.perf_counter()
set = ffload.Dataset(sys.argv[1])
opened = time.perf_counter()
print(1e3 * (imported - began), 1e3 * (opened - imported), len(set))
"""


def start():
    """A new process each time, with the files in the page cache."""
    call(BUILD + "/tests/make_huge", "huge", "--count", 10_000_000)
    found = []
    for _ in range(4 * ROUNDS):
        out = subprocess.run([sys.executable, "-c", START, "huge"], capture_output=True, text=True, check=True,
                             env=dict(os.environ, **PACKAGE)).stdout.split()
        assert out[2] == "10000000"
        found.append((float(out[0]), float(out[1])))
    imports, opens = zip(*found[1:])
    print("| a fresh process | median | best | goal |\n|---|---|---|---|")
    print(f"| import ffload | {statistics.median(imports):.1f} ms | {min(imports):.1f} ms | 50 ms |")
    print(f"| opening 10,000,000 samples | {statistics.median(opens):.2f} ms | {min(opens):.2f} ms | 10 ms |")


MEMORY = """
import sys
import ffload
def used():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
print(used(), flush=True)
sys.stdin.readline()
rank, world, seed = map(int, sys.argv[2:])
loader = ffload.Loader(sys.argv[1], 256, augment="crop=4,flip", workers=1, seed=seed, rank=rank, world=world, as_="dlpack", last_batch="drop")
for images, labels in loader:
    pass
print("read", flush=True)
sys.stdin.readline()
print(used(), flush=True)
sys.stdin.readline()
"""


def memory_of(path, loaders):
    """Bytes that loaders, (rank, world, seed), use together after an epoch, each in a separate process, without Python's own
    memory."""
    processes = [subprocess.Popen([sys.executable, "-c", MEMORY, path, *map(str, loader)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True, env=dict(os.environ, **PACKAGE)) for loader in loaders]

    def ask(word):
        for process in processes:
            process.stdin.write(word + "\n")
            process.stdin.flush()
        return [process.stdout.readline().strip() for process in processes]
    before = [int(process.stdout.readline()) for process in processes]
    assert ask("load") == ["read"] * len(loaders)
    after = [int(line) for line in ask("tell")]
    for process in processes:
        process.communicate("end\n")
    return sum(after) - sum(before)


def memory():
    """Each loader has memory for some of its own batches; ranks of a job share a batch."""
    call(BUILD + "/tests/make_set", "large", "--count", 100000, "--statistics", "--noise")
    size = sum(os.path.getsize(os.path.join("large", name)) for name in os.listdir("large"))
    print(f"| loaders of one set of {size / 2**20:.0f} MiB, a process each | memory, MiB (Pss, without Python's) | more, of the set | goal |")
    print("|---|---|---|---|")
    one = memory_of("large", [(0, 1, 0)])
    print(f"| 1 | {one / 2**20:.0f} | | |")
    for what, loaders, goal in (("8, the ranks of a job", [(rank, 8, 0) for rank in range(8)], "5 %"),
                                ("8, each with batches of 256", [(0, 1, seed) for seed in range(8)], "")):
        more = memory_of("large", loaders)
        print(f"| {what} | {more / 2**20:.0f} | {100 * (more - one) / size:.1f} % | {goal} |", flush=True)


def main():
    if subprocess.run([sys.executable, "-c", "import ffload, numpy, torch, torchvision"], env=dict(os.environ, **PACKAGE),
                      capture_output=True).returncode:
        print("python_loader: skipped (needs ffload in the build folder, NumPy, torch and torchvision)")
        return
    parts = {"library": against_library, "peers": peers, "crops": lambda: peers(CROPS), "views": lambda: peers(VIEWS), "start": start, "memory": memory}
    place = tempfile.mkdtemp(prefix="ffbench", dir=os.environ.get("BENCH_DIR"))
    os.chdir(place)
    try:
        for number, name in enumerate(sys.argv[1:] or parts):
            if number:
                print()
            parts[name]()
    finally:
        os.chdir("/")
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
