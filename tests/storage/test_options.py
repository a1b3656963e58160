#!/usr/bin/python3
"""The options of sets behind URLs, --cache, --cache-size, --storage-timeout and --endpoint, of each program and of ffload: each has an
effect, comes before the environment's variable, and is refused with a wrong value or without effect; a run records them; a link that is
lost ends a run with a checkpoint. Prints TAP."""
# Needs: ffpack fftrain ffinspect python-package
import io
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server import Server  # noqa: E402

try:
    import numpy
except ImportError as missing:
    tap.skip("options of sets behind URLs", "Python lacks a module: %s" % missing)
    tap.finish()
sys.path.insert(0, os.path.join(tap.BUILD, "python"))
import ffload  # noqa: E402
FFPACK, FFTRAIN, FFINSPECT = (os.path.join(tap.BUILD, name) for name in ("ffpack", "fftrain", "ffinspect"))
place = tempfile.mkdtemp()
os.chdir(place)
TRAIN = ["--model", "smallnet", "--batch", "32", "--seed", "1", "--quiet", "--threads", "1"]
NOBODY = "http://127.0.0.1:9"
MIB = 1 << 20
# Nothing here helps: each variable names a wrong place.
WRONG = {"AWS_ENDPOINT_URL": NOBODY, "FFPACK_CACHE": "/proc/none", "FFPACK_CACHE_SIZE": "12X"}


def run(*command, env=None, timeout=120):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=timeout, env=env or bare)


def cached(folder):
    return sum(os.lstat(os.path.join(at, name)).st_blocks * 512 for at, _, names in os.walk(folder) for name in names)


def losses(log="log.jsonl"):
    with open(log) as file:
        return [line["train_loss"] for line in map(json.loads, file) if line["event"] == "epoch"]


def train(data, *options, env=None, code=0):
    """(losses, stderr) of a run."""
    if os.path.exists("log.jsonl"):
        os.remove("log.jsonl")
    done = run(FFTRAIN, *(["--data", data] if data else []), *TRAIN, *options, "--log-json", "log.jsonl", env=env)
    return (losses() if done.returncode == code else "exit %d" % done.returncode), done.stderr


def sums(path, **options):
    loader = ffload.Loader(path, batch_size=20, seed=1, epochs=1, workers=2, as_="numpy", last_batch="keep", **options)
    return [zlib.crc32(numpy.asarray(batch[0]).tobytes()) for batch in loader]


def commands(url, *options):
    """Each command that reads a set, with these options."""
    shutil.rmtree("copied", ignore_errors=True)
    shutil.rmtree("packed", ignore_errors=True)
    return {"fftrain": [FFTRAIN, "--data", url, *TRAIN, "--epochs", 1, "--out", "none", *options],
            "fftrain lr-find": [FFTRAIN, "lr-find", "--data", url, "--model", "smallnet", "--batch", 32, "--threads", 1, "--steps", 20, "--quiet", *options],
            "fftrain evaluate": [FFTRAIN, "evaluate", "base", url, "--threads", 1, *options],
            "fftrain predict": [FFTRAIN, "predict", "base", url, "--threads", 1, *options],
            "ffinspect": [FFINSPECT, url, "--verify", *options],
            "ffpack copy": [FFPACK, "copy", url, "-o", "copied", *options],
            "ffpack": [FFPACK, "x.npy", "-o", "packed", "--stats-from", url, "--force", *options]}


def effects(server):
    """With all variables wrong, every command finds the set, and keeps what it fetched in the folder named."""
    url = "s3://bucket/set/train"
    for name, command in commands(url, "--endpoint", server.url, "--cache", "own", "--cache-size", "200M").items():
        shutil.rmtree("own", ignore_errors=True)
        if name == "fftrain lr-find":
            command.append("--epochs=1")
        done = run(*command, env={**bare, **WRONG})
        loss = name == "fftrain lr-find" and done.returncode == 1 and "never falls" in done.stderr
        tap.ok((done.returncode == 0 or loss) and cached("own") > 20000, "%s: the options come before the variables" % name, (done.returncode, done.stderr, cached("own")))
    for name, command in commands(url).items():
        done = run(*command, env={**bare, "AWS_ENDPOINT_URL": server.url, "FFPACK_CACHE": "other", "FFPACK_CACHE_SIZE": "200M"})
        tap.ok(done.returncode == 0 or "never falls" in done.stderr, "%s: the variables alone" % name, (done.returncode, done.stderr))
    shutil.rmtree("own", ignore_errors=True)
    got = sums(url, endpoint=server.url, cache="own", cache_size="9M", storage_timeout=20)
    tap.ok(got == sums("sets/set/train") and 2 * MIB < cached("own") <= 9.5 * MIB, "ffload.Loader: the same batches, through a cache of 9 MiB", (len(got), cached("own")))
    dataset = ffload.Dataset(url, endpoint=server.url, cache="own", cache_size=20 << 20)
    again = pickle.loads(pickle.dumps(dataset))
    image, local = numpy.asarray(again[17][0]), numpy.asarray(ffload.Dataset("sets/set/train", as_="numpy")[17][0])
    tap.ok((image == local).all(), "ffload.Dataset, from a pickle")
    dataset.verify()
    tap.ok(True, "and verified")


def apart():
    """Two sets at two servers, whose names are the same, read by one process at the same time through two caches."""
    servers = [Server(), Server()]
    for server, name in zip(servers, ("set", "other")):
        server.add("sets/" + name, "bucket/same")
    loaders = [ffload.Loader("s3://bucket/same/train", batch_size=20, seed=1, as_="numpy", endpoint=server.url, cache="cache%d" % i) for i, server in enumerate(servers)]
    got = [[], []]
    for pair in zip(*loaders):
        for i in range(2):
            got[i].append(zlib.crc32(numpy.asarray(pair[i][0]).tobytes()))
    expected = [sums("sets/%s/train" % name) for name in ("set", "other")]
    tap.ok(got == expected and got[0] != got[1] and all(cached("cache%d" % i) > MIB for i in range(2)), "two loaders of a process, with an endpoint and a cache each")
    for server in servers:
        server.shutdown()


def refused(server):
    """Wrong values, and options without effect: exit code 2 and one sentence that names the option."""
    url, far = "s3://bucket/set/train", ["--endpoint", server.url]
    wrong = ((["--cache-size", "12X", *far], "--cache-size: '12X' is not a size"), (["--cache-size", "1K", *far], "--cache-size: 1K is out of range"), (["--cache-size", "-5M", *far], "--cache-size"),
             (["--storage-timeout", "0", *far], "--storage-timeout: 0 is out of range"), (["--storage-timeout", "soon", *far], "--storage-timeout: 'soon' is not a whole number"),
             (["--endpoint", "ftp://x"], "endpoint ftp://x: does not begin with http:// or https://"), (["--endpoint", ""], "endpoint : does not begin with"))
    for options, words in wrong:
        for name, command in commands(url, *options).items():
            done = run(*command)
            tap.ok(done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, "%s %s" % (name, " ".join(options[:2])), (done.returncode, done.stderr))
    idle = ((["--cache", "own"], "--cache has no effect: no set lies behind a URL\n"), (["--cache-size", "9M"], "--cache-size has no effect"), (["--storage-timeout", "9"], "--storage-timeout has no effect"),
            (far, "--endpoint has no effect: no set lies behind a URL of s3:// or gs://\n"))
    for options, words in idle:
        for name, command in commands("sets/set/train", *options).items():
            if name == "fftrain lr-find":
                continue
            done = run(*command)
            # A run may resume with its options where the set is in a folder: a note.
            tap.ok(done.returncode == (0 if name == "fftrain" else 2) and words in done.stderr, "%s %s of a folder" % (name, options[0]), (done.returncode, done.stderr))
    done = run(FFINSPECT, server.url + "/bucket/set/train", "--cache", "own", *far)
    tap.ok(done.returncode == 2 and "--endpoint has no effect" in done.stderr, "an endpoint of a web server", done.stderr)
    words = "hf://a/b: no such folder; a URL of hf:// is not read; wanted s3://, gs://, https:// or http://"
    for command in ((FFINSPECT, "hf://a/b"), (FFTRAIN, "--data", "hf://a/b", "--model", "smallnet"), (FFPACK, "verify", "hf://a/b")):
        done = run(*command)
        tap.ok(done.returncode == 74 and words in done.stderr, "%s of another scheme" % os.path.basename(command[0]), (done.returncode, done.stderr))
    try:
        said = ffload.Loader("hf://a/b", 4)
    except FileNotFoundError as error:
        said = "%s: %s" % (error.filename, error.strerror)
    tap.ok(said == words, "ffload of another scheme", said)
    for options, words in (({"cache_size": "12X"}, "cache_size: '12X'"), ({"cache_size": 5}, "cache_size: 5 is out of range"), ({"storage_timeout": 0}, "storage_timeout: 0 is out of range"),
                           ({"endpoint": "ftp://x"}, "endpoint ftp://x"), ({"cash": "own"}, "did you mean cache?")):
        for make in (ffload.Loader, ffload.Dataset):
            tap.ok(usage(make, url, **options).find(words) >= 0, "ffload.%s(%s)" % (make.__name__, options), usage(make, url, **options))
    for options in ({"cache": "own"}, {"cache_size": "9M"}, {"storage_timeout": 9}, {"endpoint": server.url}):
        said = usage(ffload.Loader, "sets/set/train", **options)
        tap.ok(said.startswith("%s: no set lies behind a URL" % next(iter(options))), "ffload.Loader(%s) of a folder" % options, said)
        said = usage(ffload.Loader, ffload.Dataset("sets/set/train"), **options)
        tap.ok("the Dataset is open" in said and next(iter(options)) in said, "ffload.Loader(%s) of a Dataset" % options, said)


def packed(server):
    """What each option does for ffpack: sources are not read through the cache, sets are, and a set for a bucket is built next to it."""
    with tarfile.open("photos.tar", "w") as tar:
        for i in range(6):
            data = b"P6 8 8 255\n" + bytes((i * 40 + k) % 256 for k in range(192))
            info = tarfile.TarInfo("train/%s/%d.ppm" % ("ab"[i % 2], i))
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    with open("photos.tar", "rb") as file:
        server.objects["bucket/photos.tar"] = file.read()
    source, web, plain = ["s3://bucket/photos.tar"], [server.url + "/bucket/photos.tar"], ["photos.tar", "--normalize", "half"]
    here, own = ["-o", "packed", "--normalize", "half", "--force"], {"cache": ["--cache", "own"], "cache-size": ["--cache-size", "200M"], "storage-timeout": ["--storage-timeout", "9"]}
    endpoint = {"endpoint": ["--endpoint", server.url]}
    subprocess.run([FFPACK, *plain, "-o", "grows"], check=True, capture_output=True)
    assert run(FFPACK, "push", "grows", "s3://bucket/grows", env={**bare, "AWS_ENDPOINT_URL": server.url}).returncode == 0
    cases = (("a source in a bucket", source + here, "storage-timeout endpoint"), ("a source on a web server", web + here, "storage-timeout"),
             ("a source here", plain + here[:2] + ["--force"], ""), ("check of a source in a bucket", ["check", *source], "storage-timeout endpoint"),
             ("append of a source in a bucket", ["append", "GROWS", *source, "--allow-duplicates"], "storage-timeout endpoint"),
             ("into a bucket", plain + ["-o", "s3://bucket/made", "--force"], "cache storage-timeout endpoint"),
             ("from a bucket into a bucket", source + ["-o", "s3://bucket/made", "--force", "--normalize", "half"], "cache storage-timeout endpoint"),
             ("statistics of a set in a bucket", ["photos.tar", "-o", "packed", "--force", "--stats-from", "s3://bucket/grows/train"], "cache cache-size storage-timeout endpoint"),
             ("a set in a bucket as the model", ["photos.tar", "-o", "packed", "--force", "--like", "s3://bucket/grows/train"], "cache cache-size storage-timeout endpoint"),
             ("a source in a bucket, statistics of a web server", source + ["-o", "packed", "--force", "--stats-from", server.url + "/bucket/grows/train"], "cache cache-size storage-timeout endpoint"),
             ("verify of a folder", ["verify", "grows"], ""), ("verify of a bucket's set", ["verify", "s3://bucket/grows"], "cache cache-size storage-timeout endpoint"),
             ("push", ["push", "grows", "s3://bucket/grows"], "storage-timeout endpoint"), ("push to a folder", ["push", "grows", "other"], ""),
             ("pull", ["pull", "s3://bucket/grows", "pulled", "--force"], "storage-timeout endpoint"), ("pull from a web server", ["pull", server.url + "/bucket/grows/train", "pulled", "--force"], "storage-timeout"),
             ("ls", ["ls", "s3://bucket"], "storage-timeout endpoint"))
    for name, command, effective in cases:
        for option, words in {**own, **endpoint}.items():
            if command[0] in ("push", "pull", "ls") and option.startswith("cache"):
                continue
            shutil.rmtree("again", ignore_errors=True)
            shutil.copytree("grows", "again")
            done = run(FFPACK, *["again" if word == "GROWS" else word for word in command], *words, env={**bare, "AWS_ENDPOINT_URL": server.url, "FFPACK_CACHE": "other"})
            if option in effective.split():
                tap.ok(done.returncode == 0, "ffpack, %s: --%s has an effect" % (name, option), (done.returncode, done.stderr))
            else:
                tap.ok(done.returncode == 2 and "--%s has no effect: no set lies behind a URL" % option in done.stderr and done.stderr.count("\n") == 1, "ffpack, %s: --%s has no effect" % (name, option), (done.returncode, done.stderr))
    for name in [one for one in server.objects if not one.startswith("bucket/set/")]:
        del server.objects[name]


def usage(make, *arguments, **options):
    try:
        make(*arguments, **options)
    except ffload.UsageError as error:
        return str(error)
    return "no UsageError"


def recorded(server):
    """A run's folder has the options; a resumed run takes them, or others, and says so; evaluate and replay find the set."""
    options = ["--endpoint", server.url, "--cache", "own", "--cache-size", "200M", "--storage-timeout", "77"]
    expected = train("sets/set", "--epochs", 1, "-o", "near")[0]
    expected += [loss for epochs in (2, 3) for loss in train(None, "--resume", "near", "--epochs", epochs)[0]]
    first = train("s3://bucket/set", "--epochs", 1, "-o", "run", "--hash-every", 1, *options)
    with open("run/recipe.txt" if os.path.exists("run/recipe.txt") else [os.path.join("run", name) for name in os.listdir("run") if name.startswith("recipe")][0]) as file:
        recipe = file.read()
    words = ["cache = %s" % os.path.join(place, "own"), "cache-size = 209715200", "storage-timeout = 77", "endpoint = %s" % server.url]
    tap.ok(first[0] == expected[:1] and all(re.search("^%s$" % re.escape(word), recipe, re.M) for word in words), "a run records the options", (first, expected, recipe))
    server.forget()
    second = train(None, "--resume", "run", "--epochs", 2)
    tap.ok(second[0] == expected[1:2] and server.requests < 30, "resumed with its own options", (second, expected))
    done = run(FFTRAIN, "evaluate", "run")
    tap.ok(done.returncode == 0 and "Accuracy on s3://bucket/set/val" in done.stdout, "evaluate finds the run's own set", done.stdout + done.stderr)
    done = run(FFTRAIN, "replay", "run", "--step", 3)
    tap.ok(done.returncode == 0, "replay finds the run's own set", done.stdout + done.stderr)
    moved = Server()
    moved.add("sets", "bucket")
    server.shutdown()
    server.server_close()
    shutil.rmtree("own")
    third = train(None, "--resume", "run", "--epochs", 3, "--endpoint", moved.url, "--cache", "new", "--cache-size", "9M", "--storage-timeout", 5)
    tap.ok(third[0] == expected[2:] and "endpoint" in third[1] and cached("new") <= 9.5 * MIB, "resumed from another server and cache, with a note", (third, expected))
    return moved


def lost(server):
    """The server is gone in the middle of an epoch: the run waits for --storage-timeout, ends with 74 and keeps what it trained; it
    resumes to the same losses. A shorter outage has no effect."""
    url, order = "s3://bucket/set", ["--order", "sequential", "--memory", "2M"]
    far = ["--endpoint", server.url, "--cache", "own", "--cache-size", "5M"]
    expected, gone = train("sets/set", *order, "--epochs", 2)[0], []

    def lose():
        """Once a step was made."""
        gone.clear()
        for _ in range(2000):
            time.sleep(0.02)
            if os.path.exists("log.jsonl") and b'"event":"step"' in open("log.jsonl", "rb").read().replace(b'": ', b'":'):
                gone.append(time.monotonic())
                server.fault = lambda number, handler: ("status", 503, [])
                return
    for name, more in (("one rank", []), ("micro-batches", ["--accumulate", 2]), ("two ranks", ["--ranks", 2])):
        shutil.rmtree("own", ignore_errors=True)
        shutil.rmtree("lost", ignore_errors=True)
        wanted = expected if not more else train("sets/set", *order, "--epochs", 2, *more)[0]
        breaks = threading.Thread(target=lose)
        breaks.start()
        got, said = train(url, *order, *far, "--epochs", 2, "-o", "lost", "--log-every", 1, "--storage-timeout", 3, *more, code=74)
        seconds = time.monotonic() - gone[0] if gone else 0
        breaks.join()
        server.fault = None
        kept = re.search(r"; what was trained is in (lost/checkpoints/step-[0-9]+)$", said, re.M)
        tap.ok(isinstance(got, list) and len(got) < 2 and 3 <= seconds < 25 and "s3://bucket/set" in said and "503" in said and (kept or more), "%s: a link that is lost ends the run with 74 and a checkpoint" % name, (got, seconds, said))
        if not kept:
            continue
        again, said = train(None, "--resume", "lost", "--storage-timeout", 60, *(more if "--ranks" in more else []))
        tap.ok(isinstance(again, list) and got + again == wanted, "%s: resumed to the same losses" % name, (got, again, wanted, said))
    shutil.rmtree("own", ignore_errors=True)
    server.forget()
    state = {}

    def outage(number, handler):
        if number > 24:
            state.setdefault("began", time.monotonic())
        return ("status", 503, []) if "began" in state and time.monotonic() - state["began"] < 3 else None
    server.fault = outage
    got, said = train(url, *order, *far, "--epochs", 2, "--out", "none", "--storage-timeout", 60)
    server.fault = None
    tap.ok(got == expected and "began" in state, "an outage of 3 s", (got, expected, said))
    server.fault = lambda number, handler: ("status", 503, []) if number > 4 else None
    shutil.rmtree("own", ignore_errors=True)
    server.forget()
    began, said = time.monotonic(), ""
    try:
        sums(url + "/train", endpoint=server.url, cache="own", storage_timeout=2)
    except OSError as error:
        said = str(error)
    server.fault = None
    tap.ok("s3://bucket/set/train" in said and 2 <= time.monotonic() - began < 15, "ffload: an OSError after storage_timeout", (said, time.monotonic() - began))


make = [("set", 700, 1, ["--stats", "compute"]), ("other", 700, 2, ["--stats", "compute"])]
for name, count, seed, statistics in make:
    numpy.save("x.npy", numpy.random.RandomState(seed).randint(0, 256, (count, 32, 32, 3), dtype=numpy.uint8))
    numpy.save("y.npy", numpy.arange(count) % 10)
    done = subprocess.run([FFPACK, "x.npy", "-o", "sets/%s/train" % name, "--shard-size", "3M", "--dtype", "f32", *statistics], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
numpy.save("x.npy", numpy.random.RandomState(3).randint(0, 256, (100, 32, 32, 3), dtype=numpy.uint8))
numpy.save("y.npy", numpy.arange(100) % 10)
done = subprocess.run([FFPACK, "x.npy", "-o", "sets/set/val", "--dtype", "f32", "--stats-from", "sets/set/train"], capture_output=True, text=True)
assert done.returncode == 0, done.stderr
bare = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FFPACK_CACHE"))}
bare.update(AWS_EC2_METADATA_DISABLED="true", HOME=place)
os.environ.clear()
os.environ.update(bare)
assert train("sets/set", "--epochs", 1, "-o", "base")[0] != "exit"
server = Server()
server.add("sets", "bucket")
effects(server)
apart()
refused(server)
packed(server)
lost(server)
server = recorded(server)
os.chdir("/")
shutil.rmtree(place)
tap.finish()
