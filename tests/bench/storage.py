"""Training data behind a server, in one run: ours, MosaicML Streaming and LitData read the same u8 images of 224 x 224 from one nginx,
through its files as a web server's (ours) or as an S3 bucket's objects (the peers), on a link without a limit and on one of MBIT. Batches
of 256 in shuffled order (ours: block), two workers, a loop without a model; each loader begins with an empty cache.

first batch: seconds from the loader's construction, its modules imported before. epoch 1: from the server; epoch 2: from a cache that holds
the set. fetched: bytes of the server in epochs 2 and 3, the mean, of the set, with a cache of half the set (the least: 0.5 by Belady's bound
for an order that reads each piece once an epoch); once, and given up after HALF_S. memory: the most without page cache, of all its processes.
Each number is the median of ROUNDS; loaders take turns.
Goals: ahead in all, 5 times in rate if the link is not the limit; 0.9 of the link's rate in epoch 1; 0.6 fetched.

Needs root, ip, tc and nginx. Peers come from PyPI (environments.py). Environment: BUILD, GB (1), MBIT (400), ROUNDS (3), BENCH_DIR."""
import contextlib
import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, WORKERS, PORT, MBIT, HALF_S = 256, 2, 8080, int(os.environ.get("MBIT", "400")), 300
BUCKET = f"http://10.77.0.1:{PORT}"


# ---- inside a loader's process: for each line of standard input an epoch, and a line of JSON --------------


# What each side imports before the clock begins.
MODULES = {"ours": ("torch", "ffload"), "streaming": ("torch", "streaming"), "litdata": ("torch", "litdata", "litdata.streaming.downloader")}


def ours(options):
    import ffload
    return ffload.Loader(f"{BUCKET}/ours", BATCH, dtype="u8", layout="channels_last", order="block", workers=WORKERS, last_batch="drop")


def streaming(options):
    from streaming import StreamingDataset
    import torch

    class Images(StreamingDataset):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            return torch.from_numpy(sample["image"].copy()), sample["label"]
    # Its default mixes the whole set, which fetches a shard for nearly every sample if the cache is smaller.
    fewer = {"shuffle_block_size": 1024} if options["limit"] else {}
    data = Images(remote="s3://mds", local=options["cache"], shuffle=True, batch_size=BATCH, cache_limit=options["limit"], **fewer)
    return torch.utils.data.DataLoader(data, BATCH, drop_last=True, num_workers=WORKERS, persistent_workers=True)


def litdata(options):
    import litdata as lit
    from litdata.streaming import downloader
    from litdata.streaming.cache import Dir
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True # it has no option for servers without TLS
    data = lit.StreamingDataset(Dir(path=options["cache"], url="s3://lit"), shuffle=True, drop_last=True, max_cache_size=options["limit"] or "100GB",
                                storage_options={"endpoint_url": BUCKET, "aws_access_key_id": "k", "aws_secret_access_key": "s"})
    return lit.StreamingDataLoader(data, batch_size=BATCH, num_workers=WORKERS, persistent_workers=True)


def pair(index):
    """What a script passes to LitData's writer."""
    import numpy
    images, labels = numpy.load("arrays/images.npy", mmap_mode="r"), numpy.load("arrays/labels.npy", mmap_mode="r")
    return {"image": numpy.array(images[index]), "label": int(labels[index])}


def litdata_write():
    import litdata as lit
    import numpy
    lit.optimize(pair, list(range(len(numpy.load("arrays/labels.npy", mmap_mode="r")))), "lit", chunk_bytes="64MB", num_workers=1)


def streaming_write():
    import sides
    sides.streaming_write("arrays", "mds")


def epochs(options):
    import numpy
    classes, loader = numpy.load("classes.npy"), None
    for name in MODULES[options["side"]]:
        importlib.import_module(name)
    for _ in sys.stdin:
        began, first, samples = time.perf_counter(), None, 0
        loader = loader or globals()[options["side"]](options)
        for batch in loader:
            images, labels = batch.values() if isinstance(batch, dict) else batch[:2]
            if first is None:
                first = time.perf_counter() - began
                images = numpy.asarray(images)
                images = images if images.shape[3] == 3 else images.transpose(0, 2, 3, 1)
                if not (images == classes[numpy.asarray(labels)]).all():
                    sys.exit("the images are not those of their labels")
            samples += len(labels)
        print(json.dumps({"first": first, "seconds": time.perf_counter() - began, "samples": samples}), flush=True)


# ---- outside -------------------------------------------------------------------------------------


LOADERS = {"ffload": "ours", "MosaicML Streaming": "streaming", "LitData": "litdata"}
FOLDERS = {"ours": "ours", "streaming": "mds", "litdata": "lit"}


class Server:
    """nginx in the first namespace of a network."""

    def __init__(self, network):
        with open("nginx.conf", "w", encoding="utf-8") as file:
            file.write(f"daemon off; master_process off; pid nginx.pid; error_log nginx.log; events {{}} http {{ sendfile on; log_format b "
                       f"'$bytes_sent'; access_log access.log b; server {{ listen {PORT}; root {os.getcwd()}; }} }}\n")
        self.process = subprocess.Popen(["ip", "netns", "exec", network.names[0], shutil.which("nginx", path="/usr/sbin:/usr/bin"), "-p",
                                         os.getcwd(), "-c", os.path.abspath("nginx.conf")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.inside = ["ip", "netns", "exec", network.names[1]]
        probe = "import socket; socket.create_connection(('10.77.0.1', %d))" % PORT
        while subprocess.run([*self.inside, sys.executable, "-c", probe], stderr=subprocess.DEVNULL, check=False).returncode:
            time.sleep(0.1)

    def sent(self):
        with open("access.log", encoding="ascii") as file:
            return sum(map(int, file))


@contextlib.contextmanager
def served(mbit):
    import slow_network
    with slow_network.Network(2, mbit) as network:
        server = Server(network)
        try:
            yield server
        finally:
            server.process.terminate()
            server.process.wait()


def measure(server, side, python, count, share=0.0):
    """The epochs' answers, each with the bytes that the server sent; and the peak of memory. share: of the set, for the cache; 0: no limit."""
    import memory_group
    import rounds
    limit = int(share * size(FOLDERS[side]))
    words = {"side": side, "cache": os.path.abspath("cache"), "limit": limit}
    environment = {"S3_ENDPOINT_URL": BUCKET, "AWS_ENDPOINT_URL": BUCKET, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s",
                   "AWS_REGION": "us-east-1", "FFPACK_CACHE": os.path.abspath("cache")}
    if side == "ours":
        environment["PYTHONPATH"] = os.path.join(BUILD, "python")
    if limit:
        environment["FFPACK_CACHE_SIZE"] = str(limit)
    shutil.rmtree("cache", ignore_errors=True)
    answers = []

    def read(line):
        answers.append({**json.loads(line), "sent": server.sent()})
        return answers[-1]

    with memory_group.MemoryGroup(64 << 30) as group:
        before = server.sent()
        process = rounds.Side(group.inside([*server.inside, python, os.path.abspath(__file__), "--inside", json.dumps(words)]), 1, environment,
                              read=read, patience=HALF_S)
        for _ in range(count - 1):
            process.round()
        process.close()
        peak = group.peak
    for answer, sent in zip(answers, [before, *(answer["sent"] for answer in answers)]):
        answer["sent"] -= sent
    return answers, peak


def size(folder):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


def without_limit(server, side, python, _):
    whole, peak = measure(server, side, python, 2)
    one, two = (epoch["samples"] / epoch["seconds"] for epoch in whole)
    return {"first": whole[0]["first"], "one": one, "two": two, "peak": peak / 1e6}


def half_a_cache(server, side, python, number):
    if number:
        return {}
    try:
        answers = measure(server, side, python, 3, 0.5)[0]
        return {"fetched": (answers[1]["sent"] + answers[2]["sent"]) / 2 / size(FOLDERS[side])}
    except RuntimeError as error:
        print(f"{side}, half a cache: {error}\n")
        return {}


def with_limit(server, side, python, _):
    epoch = measure(server, side, python, 1)[0][0]
    return {"slow_first": epoch["first"], "slow": epoch["samples"] / epoch["seconds"], "link": epoch["sent"] * 8e-6 / epoch["seconds"] / MBIT}


COLUMNS = {"first": ("first batch, s", ".2f"), "one": ("epoch 1, samples/s", ",.0f"), "two": ("epoch 2", ",.0f"),
           "slow_first": ("first batch on the slow link, s", ".2f"), "slow": ("epoch 1 there, samples/s", ",.0f"), "link": ("of the link", ".2f"),
           "fetched": ("fetched with half a cache", ".2f"), "peak": ("memory, MB", ".0f")}


def run(count):
    import beyond_peers
    import environments
    pythons, failed = {"ours": sys.executable}, {}
    for name, environment in (("streaming", "streaming"), ("litdata", "torch")):
        pythons[name], reason = environments.python_of(environment)
        if reason:
            print(f"{name}: skipped ({reason})\n")
    beyond_peers.make_images()
    beyond_peers.call(BUILD + "/ffpack", "arrays", "-o", "ours", "--dtype", "u8", "--layout", "hwc")
    for name in ("streaming", "litdata"):
        if pythons[name]:
            beyond_peers.call(pythons[name], os.path.abspath(__file__), "--write", name)
    rows = {name: {} for name, side in LOADERS.items() if pythons[side]}
    for number in range(count):
        for mbit, numbers in ((0, without_limit), (MBIT, with_limit), (0, half_a_cache)):
            with served(mbit) as server:
                for name in [name for name in rows if name not in failed]:
                    try:
                        for key, value in numbers(server, LOADERS[name], pythons[LOADERS[name]], number).items():
                            rows[name].setdefault(key, []).append(value)
                    except RuntimeError as error:
                        failed[name] = str(error)
    print(f"{beyond_peers.COUNT:,} images, {beyond_peers.COUNT * beyond_peers.IMAGE / 1e9:.1f} GB; the slow link has {MBIT} Mbit/s\n")
    print("| loader | " + " | ".join(title for title, _ in COLUMNS.values()) + " |\n" + "|---" * (len(COLUMNS) + 1) + "|")
    for name, each in rows.items():
        cells = [format(statistics.median(each[key]), form) if key in each else "" for key, (_, form) in COLUMNS.items()]
        print(f"| {name} | " + " | ".join(cells) + " |")
    for name, reason in failed.items():
        print(f"\n{name}: failed ({reason})")


def main():
    import slow_network
    reason = slow_network.missing() or (None if shutil.which("nginx", path="/usr/sbin:/usr/bin") else "there is no nginx: package nginx-light")
    if reason:
        print(f"storage: skipped ({reason})")
        return
    with tempfile.TemporaryDirectory(prefix="ffstorage", dir=os.environ.get("BENCH_DIR")) as place:
        os.chdir(place)
        try:
            run(int(os.environ.get("ROUNDS", "3")))
        finally:
            os.chdir("/")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        sys.path.pop(0)  # modules of this folder have the same names as other modules
        epochs(json.loads(sys.argv[2]))
    elif sys.argv[1:2] == ["--write"]:
        globals()[sys.argv[2] + "_write"]()
    else:
        os.environ.setdefault("GB", "1")
        BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
        sys.path.insert(0, os.path.join(HERE, ".."))
        main()
