"""Loaders of a set that memory cannot keep, each in a memory cgroup of the same limit, in one run: ours by order, a plain reader at its
best depth, FFCV, MosaicML Streaming, and PyTorch's DataLoader over JPEG files and over a mapped array; and fftrain, with a net so
small that data are the limit. All hand out batches of 256 of the same u8 images of 224 x 224, in a loop without a model, with two
workers; the first batch of each is compared with the images of its labels. Nothing of a set is in the page cache when its
measurement begins. Each peer is measured between two measurements of our loader. Goals: 3 times each peer, and the plain reader's
0.95 (random) and 0.9.

The sets repeat 100 images that look like photographs: they have the full size, and no loader looks for equal images. Needs root and
three times GB of disk. FFCV and Streaming come from PyPI (environments.py). Environment: BUILD, GB (12), LIMIT_MB (1000, of other
sizes in proportion), SECONDS (15) of each, PATIENCE (180) until a loader's first batches, PEERS_DIR, BENCH_DIR."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import environments
import rounds

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import memory_group  # noqa: E402

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
GB = float(os.environ.get("GB", "12"))
LIMIT = int(float(os.environ.get("LIMIT_MB", GB / 12 * 1000)) * 1e6)
SECONDS, PATIENCE, WARM, PLAIN = float(os.environ.get("SECONDS", "15")), float(os.environ.get("PATIENCE", "180")), 3, 4
SIDE, CLASSES, BATCH, WORKERS = 224, 100, 256, 2
IMAGE = SIDE * SIDE * 3
COUNT = int(GB * 1e9 / IMAGE) // CLASSES * CLASSES
ORDERS = {"random": 0.95, "block": 0.9, "sequential": 0.9}


# ---- the sets ------------------------------------------------------------------------------------


def make_images():
    """arrays/images.npy and labels.npy, label i % CLASSES; classes.npy, the image of each label. Returns the mean size of their
    JPEG files."""
    import io
    import numpy
    from PIL import Image
    dice, files, images = numpy.random.RandomState(0), [], []
    for _ in range(CLASSES):
        small = Image.fromarray(dice.randint(0, 256, (14, 14, 3), "uint8")).resize((SIDE, SIDE), Image.BICUBIC)
        noisy = numpy.asarray(small, "int16") + dice.normal(0, 6, (SIDE, SIDE, 3))
        file = io.BytesIO()
        Image.fromarray(noisy.clip(0, 255).astype("uint8")).save(file, "JPEG", quality=90)
        files.append(file.getvalue())
        images.append(numpy.asarray(Image.open(file)))
    numpy.save("classes.npy", numpy.stack(images))
    os.mkdir("arrays")
    numpy.save("arrays/labels.npy", numpy.arange(COUNT) % CLASSES)
    with open("arrays/images.npy", "wb") as file:
        numpy.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (COUNT, SIDE, SIDE, 3)})
        for _ in range(COUNT // CLASSES):
            file.write(numpy.stack(images))
    return files


def make_files(jpegs):
    for label, jpeg in enumerate(jpegs):
        os.makedirs(f"files/{label:03d}")
        for number in range(label, COUNT, CLASSES):
            with open(f"files/{label:03d}/{number:07d}.jpg", "wb") as file:
                file.write(jpeg)


def call(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[-1][:200])


# ---- measuring -----------------------------------------------------------------------------------


class Row:
    """The measurements of a loader: samples a second (0: none), bytes read for each used, the peak of its memory."""

    def __init__(self, name, order, rate=0.0, read=None, peak=None, note="", like=None):
        self.name, self.order, self.rate, self.read, self.peak, self.note, self.like = name, order, rate, read, peak, note, like
        self.ahead = None # our rate divided by the peer's

    def tell(self):
        """Prints for a reader who waits for the table."""
        print(self.line({}), file=sys.stderr, flush=True)
        return self

    def line(self, plain):
        def cell(value, form, scale=1):
            return format(value * scale, form) if value else ""

        share = self.rate / plain[self.like] if self.like in plain else 0
        cells = [self.name, self.order, cell(self.rate, ",.0f") or self.note, cell(self.rate, ",.0f", IMAGE / 1e6), cell(share, ".2f"),
                 cell(self.read, ".2f"), cell(self.peak, ".0f", 1e-6), cell(self.ahead, ".1f")]
        return f"| {' | '.join(cells)} |"


def measure(name, said, data, python=sys.executable, sample=IMAGE, like=None, environment=None, **options):
    """Adds a row; said: the order, by the loader's own name; sample: bytes per sample on disk."""
    words = dict(data=os.path.abspath(data), batch=BATCH, workers=WORKERS, augment="none", dtype="u8", ahead=0,
                 classes=os.path.abspath("classes.npy"), **options)
    memory_group.drop(data)
    late = threading.Event()
    with memory_group.MemoryGroup(LIMIT) as group:

        def give_up():
            late.set()
            group.kill()

        clock = threading.Timer(PATIENCE + SECONDS, give_up)
        clock.start()
        try:
            side = rounds.Side(group.inside([python, HERE + "/sides.py", json.dumps(words)]), SECONDS, environment)
            side.round(WARM)
            before, began = group.read_bytes(), time.perf_counter()
            rate = side.round()
            used = rate * (time.perf_counter() - began) * sample
            row = Row(name, said, rate, (group.read_bytes() - before) / used, group.peak, like=like)
            side.close()
        except RuntimeError as error:
            note = f"none in {PATIENCE + SECONDS:.0f} s" if late.is_set() else "killed by the limit" if group.killed() else str(error)
            row = Row(name, said, peak=group.peak, note=note, like=like)
        finally:
            clock.cancel()
    return row.tell()


def ours(order):
    return measure("ffload.Loader", order, "ours", side="ffload", order=order, layout="channels_last", like=order,
                   environment={"PYTHONPATH": os.path.join(BUILD, "python")})


def plain_reader(order):
    """Samples a second."""
    with memory_group.MemoryGroup(LIMIT) as group:
        done = subprocess.run(group.inside([BUILD + "/tests/bench_ahead", "ours", order, PLAIN, 0]), check=True, stdout=subprocess.PIPE)
    return max(json.loads(done.stdout)["rounds"][0].values()) / IMAGE


def fftrain(order):
    """An epoch of smallnet on the middle 8 x 8 of each image, and the share of it that the net waited."""
    command = [BUILD + "/fftrain", "--data", "ours", "--val", "none", "--model", "smallnet", "--crop", 8, "--augment", "none",
               "--batch", BATCH, "--epochs", 1, "--order", order, "--threads", 1, "--workers", WORKERS, "--out", "none", "--quiet",
               "--log-json", f"{order}.jsonl"]
    memory_group.drop("ours")
    before = memory_group.read_bytes()
    with memory_group.MemoryGroup(LIMIT) as group:
        try:
            done = subprocess.run(group.inside(command), capture_output=True, text=True, timeout=PATIENCE + 4 * SECONDS)
        except subprocess.TimeoutExpired:
            return Row("fftrain", order, note="no epoch in its time", like=order)
        peak, killed = group.peak, group.killed()
    if done.returncode:
        return Row("fftrain", order, note="killed by the limit" if killed else done.stderr.strip()[-200:], peak=peak, like=order)
    with open(f"{order}.jsonl", encoding="utf-8") as log:
        epoch = next(event for event in map(json.loads, log) if event["event"] == "epoch")
    row = Row(f"fftrain, smallnet: waits {epoch['data_wait_percent']:.0f} % of the time", order, epoch["samples_per_second"],
              (memory_group.read_bytes() - before) / COUNT / IMAGE, peak, like=order)
    return row.tell()


def beside(rows, last, peers):
    """Adds the peers' rows, and after them our rows with similar orders; a peer is compared with our rates before and after it."""
    after = {like: ours(like) for like in dict.fromkeys(row.like for row in peers)}
    for row in peers:
        row.ahead = row.rate and statistics.mean((last[row.like].rate, after[row.like].rate)) / row.rate
    last.update(after)
    rows += [*peers, *after.values()]


def run():
    pythons = {}
    for name in environments.PEERS:
        pythons[name], reason = environments.python_of(name)
        if reason:
            print(f"{name}: skipped ({reason})\n")
    jpegs = make_images()
    each = statistics.mean(map(len, jpegs))
    call(BUILD + "/ffpack", "arrays", "-o", "ours", "--dtype", "u8", "--layout", "hwc")
    memory_group.sync("ours")
    plain = {order: plain_reader(order) for order in ORDERS}
    last = {order: ours(order) for order in ORDERS}
    rows = list(last.values())
    rows += [fftrain(order) for order in ORDERS]
    if pythons["ffcv"]:
        call(pythons["ffcv"], HERE + "/sides.py", json.dumps({"side": "ffcv", "write": "arrays", "data": "set.beton"}))
        memory_group.sync("set.beton")
        beside(rows, last, [
            measure("FFCV" + (", os_cache" if cached else ""), order.lower(), "set.beton", pythons["ffcv"], like=like, side="ffcv",
                    order=order, cached=cached)
            for order, cached, like in (("RANDOM", False, "random"), ("RANDOM", True, "random"), ("QUASI_RANDOM", False, "block"),
                                        ("SEQUENTIAL", False, "sequential"))])
        os.unlink("set.beton")
    peers = []
    if pythons["streaming"]:
        call(pythons["streaming"], HERE + "/sides.py", json.dumps({"side": "streaming", "write": "arrays", "data": "mds"}))
        memory_group.sync("mds")
        peers.append(measure("MosaicML Streaming", "shuffle", "mds", pythons["streaming"], like="random", side="streaming"))
        shutil.rmtree("mds")
    peers.append(measure("PyTorch's DataLoader, a mapped .npy", "shuffle", "arrays", like="random", side="torchvision"))
    shutil.rmtree("arrays")
    make_files(jpegs)
    os.sync() # one by one would take minutes
    peers.append(measure("PyTorch's DataLoader, JPEG files", "shuffle", "files", like="random", side="files", sample=each))
    beside(rows, last, peers)
    print(f"{COUNT:,} images, {COUNT * IMAGE / 1e9:.1f} GB; JPEG files {COUNT * each / 1e9:.2f} GB; "
          f"limit {LIMIT / 1e6:,.0f} MB; load {' '.join(f'{one:.1f}' for one in os.getloadavg())}\n")
    print("| loader | order | samples/s | MB/s of samples | of the plain reader | bytes read for each used | memory, MB | ours, times |")
    print("|---|---|---|---|---|---|---|---|")
    for order, rate in plain.items():
        print(Row("plain reader", order, rate, like=order).line(plain))
    for row in rows:
        print(row.line(plain))


def main():
    try:
        memory_group.MemoryGroup(1 << 30).remove()
    except OSError as error:
        print(f"not measured: needs root and memory cgroups ({error})")
        return
    with tempfile.TemporaryDirectory(prefix="ffbeyond", dir=os.environ.get("BENCH_DIR")) as place:
        free = shutil.disk_usage(place).free
        if free < 3.2 * GB * 1e9:
            print(f"not measured: needs {3.2 * GB:.0f} GB of disk, and {place} has {free / 1e9:.0f} GB free")
            return
        os.chdir(place)
        try:
            run()
        finally:
            os.chdir("/")


if __name__ == "__main__":
    main()
