#!/usr/bin/python3
"""Packing what is not on this machine: archives behind URLs, on the standard input, and the objects of a bucket. The oracle is the set
that ffpack packs from the same files on the disk, byte for byte; with faults of the server, killed runs, parts. Prints TAP."""
# Needs: ffpack
import gzip
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server import Server  # noqa: E402

try:
    import numpy
    from PIL import Image
except ImportError as missing:
    tap.skip("sources behind URLs", "this Python has no %s" % missing.name)
    tap.finish()
FFPACK = os.path.join(tap.BUILD, "ffpack")
place = tempfile.mkdtemp()
os.chdir(place)
rng = random.Random(5)
QUICK = ["--no-history", "--progress", "none", "--resize", "16x16", "--dtype", "u8", "--shard-size", "64K"]


def ffpack(*words, stdin=subprocess.DEVNULL, env=None, timeout=300):
    done = subprocess.run([FFPACK, *[str(word) for word in words]], stdin=stdin, capture_output=True, timeout=timeout, env=env)
    return done.returncode, done.stderr.decode(errors="replace"), done.stdout.decode(errors="replace")


def piped(path, *words):
    """As in cat PATH | ffpack - WORDS."""
    cat = subprocess.Popen(["cat", path], stdout=subprocess.PIPE)
    got = ffpack("-", *words, stdin=cat.stdout)
    cat.stdout.close()
    cat.wait()
    return got


def same(first, second):
    done = subprocess.run(["diff", "-r", first, second], capture_output=True, text=True)
    return done.returncode == 0 and os.path.isdir(first), done.stdout[:500] + done.stderr[:500]


def clear(*folders):
    for name in folders or ("out",):
        for path in (name, name + ".partial"):
            shutil.rmtree(path, ignore_errors=True)
        if os.path.exists(name + ".skipped.tsv"):
            os.remove(name + ".skipped.tsv")


def packed_as(expected, name, source, *options, env=None, pipe=False):
    clear()
    code, said, _ = piped(source, "-o", "out", *QUICK, *options) if pipe else ffpack(source, "-o", "out", *QUICK, *options, env=env)
    equal, how = same("out", expected)
    return tap.ok(code == 0 and equal, name, (code, said, how))


def picture(seed, size=24, kind="PNG"):
    out = io.BytesIO()
    Image.fromarray(numpy.random.RandomState(seed).randint(0, 256, (size, size, 3), dtype=numpy.uint8)).save(out, kind)
    return out.getvalue()


# Names in the order of none of the usual sorts.
NAMES = ("a b.png", "a+b.png", "a%20b.png", "a&b<c>'\".png", "\u00e9t\u00e9.png", "\u6f22.png", "z.JPEG", "plain", "B.png", "b.png", "deep/er/x.png", "deep-er.png", "deep.png")


def write(path, data):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def made(folder):
    os.makedirs(folder, exist_ok=True)
    return folder


def make_photos():
    number = 0
    for kind in ("cat", "dog", "a+b c"):
        for name in NAMES:
            number += 1
            write("photos/%s/%s" % (kind, name), picture(number, kind="JPEG" if name.endswith("JPEG") else "PNG"))
        for i in range(30):
            number += 1
            write("photos/%s/many/%d.png" % (kind, i), picture(number, 20))
    write("photos/cat/.hidden.png", picture(0))
    write("photos/.git/x.png", picture(0))
    write("photos/cat/notes.txt", b"no image")
    write("photos/readme.txt", b"no image")


def make_shards():
    for shard in range(3):
        with tarfile.open("train-%06d.tar" % shard, "w") as tar:
            for i in range(40):
                for ending, data in (("png", picture(shard * 100 + i)), ("cls", b"%d" % (i % 5))):
                    info = tarfile.TarInfo("%03d%03d.%s" % (shard, i, ending))
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    for shard in range(3):
        with open("train-%06d.tar" % shard, "rb") as file:
            write("train-%06d.tar.gz" % shard, gzip.compress(file.read(), 1))


def make_archives():
    with tarfile.open("photos.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        tar.add("photos")
    with open("photos.tar", "rb") as file:
        data = file.read()
    write("./photos.tar.gz", gzip.compress(data, 1))
    if subprocess.run(["zstd", "-q", "photos.tar"]).returncode:
        tap.skip("tar.zst", "there is no zstd")
    with zipfile.ZipFile("photos.zip", "w") as archive:
        for at, _, names in os.walk("photos"):
            for name in names:
                archive.write(os.path.join(at, name))
    numpy.savez("data.npz", images=numpy.random.RandomState(1).randint(0, 256, (50, 16, 16, 3), dtype=numpy.uint8), labels=numpy.arange(50) % 10)


def make_expected():
    for out, source in (("of-photos", "photos"), ("of-tar", "photos.tar"), ("of-tar-gz", "photos.tar.gz"), ("of-zip", "photos.zip"), ("of-npz", "data.npz"),
                        ("of-shards", "train-{000000..000002}.tar"), ("of-shard", "train-000001.tar")):
        code, said, _ = ffpack(source, "-o", out, *QUICK)
        assert code == 0, said


# ---- one object, and the standard input

def archives(server, env):
    for source, expected in (("photos.tar", "of-tar"), ("photos.tar.gz", "of-tar-gz"), ("photos.zip", "of-zip"), ("data.npz", "of-npz"), ("train-000001.tar", "of-shard")):
        server.forget()
        packed_as(expected, "%s behind http" % source, server.url + "/bucket/" + source)
        size = os.path.getsize(source)
        tap.ok(size <= server.bytes <= size + 100, "%s: each byte is fetched once" % source, (size, server.bytes))
        packed_as(expected, "%s in a bucket" % source, "s3://bucket/" + source, env=env)
        packed_as(expected, "%s on the standard input" % source, source, pipe=True)
    if os.path.exists("photos.tar.zst"):
        packed_as("of-tar-gz", "photos.tar.zst behind http", server.url + "/bucket/photos.tar.zst")
    with open("photos.tar", "rb") as file:
        clear()
        code, said, out = ffpack("-", "-o", "out", *QUICK, stdin=file)
        tap.ok(code == 0 and same("out", "of-tar")[0] and out.startswith("packed standard input (archive)\n"), "a file as the standard input", (said, out))
    packed_as("of-shards", "shards behind http, by a pattern", server.url + "/bucket/train-{000000..000002}.tar")
    packed_as("of-shards", "shards in a bucket, by a pattern", "s3://bucket/train-{000000..000002}.tar", env=env)
    for name, files in (("tars/", ("train-000000.tar", "train-000001.tar", "train-000002.tar")), ("split-tars/", ("train/a.tar", "val/b.tar"))):
        for number, file in enumerate(files):
            shutil.copy("train-%06d.tar" % number, os.path.join(made(name + os.path.dirname(file)), os.path.basename(file)))
        write(name + "readme.md", b"no tar")
        server.add(name, "bucket/" + name.strip("/"))
        clear("other")
        ffpack(name, "-o", "other", *QUICK)
        packed_as("other", "tars of a bucket, below %s" % name, "s3://bucket/" + name, env=env)
    packed_as("of-tar", "an archive whose URL has a blank", server.url + "/bucket/with blank.tar")
    packed_as("of-tar", "an archive whose key has a % and a +", "s3://bucket/100%25+more.tar", env=env)
    code, said, _ = ffpack(server.url + "/bucket/train-{000000..000003}.tar", "-o", "none", *QUICK)
    tap.ok(code == 74 and said.count("\n") == 1 and server.url + "/bucket/train-000003.tar: the server answers 404" in said, "a shard that is missing", (code, said))


def secrets(server):
    """A signature in a URL is sent, and never shown or recorded."""
    asked = []
    server.fault = lambda number, handler: asked.append(handler.path)
    clear()
    url = server.url + "/bucket/photos.tar?X-Amz-Signature=S3CRET&X-Amz-Credential=KEYID"
    code, said, out = ffpack(url, "-o", "out", *[word for word in QUICK if word != "--no-history"], "--json")
    with open("out/history.jsonl") as file:
        history = file.read()
    tap.ok(code == 0 and asked and all(path.endswith("?X-Amz-Signature=S3CRET&X-Amz-Credential=KEYID") for path in asked), "a URL with a query: each request has the query", (code, said, asked[:3]))
    tap.ok("S3CRET" not in history + said + out and server.url + "/bucket/photos.tar" in history, "the history has the URL without the query", history)
    os.remove("out/history.jsonl")
    tap.ok(same("out", "of-tar")[0], "a URL with a query: the same set")
    for name, fault in (("403", lambda number, handler: ("status", 403, [])), ("404", lambda number, handler: ("status", 404, [])), ("a replaced object", lambda number, handler: replace(server, number)),
                        ("a broken answer", lambda number, handler: ("shift",))):
        server.fault = fault
        server.forget()
        clear()
        code, said, out = ffpack(url.replace("photos.tar", "changing.tar"), "-o", "out", *QUICK)
        tap.ok(code == 74 and said.count("\n") == 1 and server.url + "/bucket/changing.tar" in said and "S3CRET" not in said + out and "KEYID" not in said + out, "%s: a sentence without the query" % name, (code, said))
    server.fault = None
    clear()
    process = subprocess.Popen([FFPACK, url, "-o", "out", *QUICK, "--jobs", "1"], stderr=subprocess.PIPE, text=True)
    kill_within(process, signal.SIGINT, "out.partial")
    said = process.communicate()[1]
    tap.ok("S3CRET" not in said and (process.returncode == 0 or "photos.tar?...' -o out" in said or "nothing is kept" in said), "how to continue: without the query", said)
    clear()
    code, said, _ = ffpack("http://user:S3CRET@127.0.0.1:1/x.tar", "-o", "out", *QUICK)
    tap.ok(code == 2 and "S3CRET" not in said and "must not hold a user's name" in said, "a URL with a password", (code, said))


def replace(server, number):
    if number == 2:
        server.objects["bucket/changing.tar"] = server.objects["bucket/changing.tar"][:-1] + b"x"


def refused(server, env):
    server.forget()
    clear()
    os.mkdir("out")
    code, said, _ = ffpack(server.url + "/bucket/photos.tar", "-o", "out", *QUICK)
    tap.ok(code == 2 and "exists already" in said and server.requests == 0, "an OUT that exists is refused before a request is sent", (code, said, server.requests))
    clear()
    for name, words, wanted_code, wanted in (
            ("a web page", (server.url + "/bucket/page.html",), 65, "page.html: starts with bytes 3c 21"),
            ("nothing", (server.url + "/bucket/empty.tar",), 65, "empty.tar: is empty"),
            ("a folder of a web server", (server.url + "/bucket/photos/",), 2, "a web server cannot be listed; s3:// and gs:// can"),
            ("another scheme", ("hf://datasets/x",), 2, "hf:// is not read; wanted a file or folder of this machine, a URL of s3://, gs://, https:// or http://, or - for the standard input"),
            ("a list behind a URL", (server.url + "/bucket/list.csv", "--format", "list"), 2, "is read as --format list, which needs files of this machine; from a URL or the standard input come "),
            ("a bucket's objects as another format", ("s3://bucket/photos/", "--format", "npy"), 2, "is read as --format npy"),
            ("--if-changed", (server.url + "/bucket/photos.tar", "--if-changed"), 2, "--if-changed: compares when files of this machine changed; a URL is not one"),
            ("an empty standard input", ("-",), 65, "standard input: is empty"),
            ("an array without labels", (server.url + "/bucket/x.npy",), 2, "x.npy: an .npy has its labels next to it, on this machine; wanted an .npz of images and labels"),
            ("a file of CIFAR", (server.url + "/bucket/data_batch_1.bin",), 2, "data_batch_1.bin: a file of CIFAR has the classes' names next to it, on this machine; wanted the archive"),
            ("no such objects", ("s3://bucket/nothing/",), 74, "s3://bucket/nothing: there is no such object, and none below it"),
            ("no such object", ("s3://bucket/nothing",), 74, "s3://bucket/nothing: there is no such object, and none below it"),
            ("a compressed source and --shuffle", (server.url + "/bucket/photos.tar.gz", "--shuffle", "1"), 2, "can only be read from front to back"),
            ("no server", ("http://127.0.0.1:9/x.tar",), 74, "http://127.0.0.1:9/x.tar: ")):
        if name == "no server" and not tap.LONG:
            continue
        code, said, _ = ffpack(*words, "-o", "out", *QUICK, env=env)
        tap.ok(code == wanted_code and wanted in said and said.count("\n") == 1 and not os.path.exists("out") and not os.path.exists("out.partial"), "refused: %s" % name, (code, said))
    leader, follower = os.openpty()
    code, said, _ = ffpack("-", "-o", "out", *QUICK, stdin=follower)
    tap.ok(code == 2 and "standard input: is a terminal; wanted an archive, as in: curl URL | ffpack - -o OUT" in said, "a terminal as the standard input", (code, said))
    os.close(leader)
    os.close(follower)


def cut_off(server):
    """A body or an input that ends early is never taken for the whole: by half of a member, and exactly after one."""
    with open("train-000001.tar", "rb") as file:
        data = file.read()
    for name, length in (("within a member", 20000), ("after a member", 1024 * 12), ("without its zeros", len(data.rstrip(b"\0")) + 511 & ~511)):
        write("./cut.tar", data[:length])
        server.objects["bucket/cut.tar"] = data[:length]
        for how, got in (("standard input", lambda: piped("cut.tar", "-o", "out", *QUICK)), (server.url + "/bucket/cut.tar", lambda: ffpack(server.url + "/bucket/cut.tar", "-o", "out", *QUICK))):
            clear()
            code, said, _ = got()
            tap.ok(code == 65 and how in said and said.count("\n") == 1 and not os.path.exists("out"), "a tar that ends %s: %s" % (name, how.split("/")[0]), (code, said))
    write("./cut.tar.gz", open("train-000001.tar.gz", "rb").read()[:-9])
    clear()
    code, said, _ = piped("cut.tar.gz", "-o", "out", *QUICK)
    tap.ok(code == 65 and "standard input: " in said and not os.path.exists("out"), "a tar.gz that ends early on the standard input", (code, said))


def faulty(server, env, times):
    """Faults that pass: the same set. Faults that stay: one sentence."""
    passing = [("status", 500, []), ("status", 503, [("Retry-After", "0")]), ("status", 429, []), ("reset",), ("cut", 0), ("cut", 5000), ("stall", 0.1)]
    lasting = [("shift",), ("status", 403, [])]
    wrong, failed = [], 0
    for i in range(times):
        kind, share, source = rng.choice(passing + lasting), rng.choice((0.05, 0.2)), rng.choice(("http", "shards", "s3 objects", "s3"))
        words = {"http": server.url + "/bucket/photos.tar", "shards": "s3://bucket/train-{000000..000002}.tar", "s3 objects": "s3://bucket/photos/", "s3": "s3://bucket/photos.tar.gz"}[source]
        expected = {"http": "of-tar", "shards": "of-shards", "s3 objects": "of-photos", "s3": "of-tar-gz"}[source]
        chance = random.Random(i)
        server.forget()
        server.fault = lambda number, handler, kind=kind, share=share, chance=chance: kind if chance.random() < share else None
        clear()
        code, said, _ = ffpack(words, "-o", "out", *QUICK, env=env)
        server.fault = None
        failed += code != 0
        if code == 0 and not same("out", expected)[0] or code and (kind in passing or said.count("\n") != 1 or words.split("{")[0].rstrip("/")[:20] not in said or os.path.exists("out")):
            wrong.append((i, kind, source, code, said))
    tap.ok(not wrong and failed < times, "%d runs with faults, of which %d end with a sentence" % (times, failed), wrong)


# ---- the objects of a bucket

def objects(server, env):
    server.forget()
    packed_as("of-photos", "photos of a bucket", "s3://bucket/photos/", env=env)
    heads = sum(name.endswith("/plain") for _, name, _ in server.log)
    size = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk("photos") for name in names)
    tap.ok(server.bytes < 2.5 * size and heads >= 3, "photos of a bucket: the bytes that are fetched", (server.bytes, size))
    packed_as("of-photos", "the same without a slash", "s3://bucket/photos", env=env)
    for name, options in (("--shuffle", ("--shuffle", "7")), ("--split", ("--split", "train=0.7,val=0.3")), ("--exclude", ("--exclude", "dog")), ("--stats-sample", ("--stats-sample", "20", "--dtype", "f32")),
                          ("--stats compute", ("--stats", "compute", "--dtype", "f32")), ("one job", ("--jobs", "1"))):
        clear("other")
        code, said, _ = ffpack("photos", "-o", "other", *QUICK, *options)
        assert code == 0, said
        packed_as("other", "photos of a bucket, %s" % name, "s3://bucket/photos", *options, env=env)
    for prefix in ("listed", "splits", "images"):
        clear("other")
        options = ["--labels", "labels.csv"] if prefix == "listed" else []
        code, said, _ = ffpack(prefix, "-o", "other", *QUICK, *options)
        assert code == 0, said
        packed_as("other", "objects below %s/" % prefix, "s3://bucket/%s/" % prefix, *options, env=env)
    local, remote = (ffpack("check", source, env=env) for source in ("broken", "s3://bucket/broken"))
    tap.ok(local[0] == remote[0] == 65 and local[2].replace("broken/", "s3://bucket/broken/") == remote[2], "ffpack check", (local, remote))
    dry = [ffpack(source, "--dry-run", "--resize", "16x16", env=env) for source in ("photos", "s3://bucket/photos")]
    tap.ok(dry[0][0] == dry[1][0] == 0 and dry[0][2].replace("photos", "X") == dry[1][2].replace("s3://bucket/photos", "X").replace("photos", "X"), "--dry-run", dry)


def markers(server, env):
    """Keys that end with a slash are folders."""
    for key in ("photos/", "photos/cat/", "photos/cat/many/"):
        server.objects["bucket/" + key] = b""
    packed_as("of-photos", "markers of folders", "s3://bucket/photos/", env=env)
    server.objects["bucket/photos/empty/"] = b""
    os.mkdir("photos/empty")
    clear()
    local, remote = (ffpack(source, "-o", "out", *QUICK, env=env) for source in ("photos", "s3://bucket/photos"))
    tap.ok(local[0] == remote[0] == 65 and local[1].replace("photos/", "s3://bucket/photos/") == remote[1], "the marker of an empty folder is a class without an image", (local, remote))
    clear("other")
    ffpack("photos", "-o", "other", *QUICK, "--allow-empty-classes")
    packed_as("other", "--allow-empty-classes", "s3://bucket/photos/", "--allow-empty-classes", env=env)
    os.rmdir("photos/empty")
    del server.objects["bucket/photos/empty/"]
    for key in ("photos//x.png", "photos/cat//x.png", "photos/cat/../dog/x.png", "photos/./x.png", "photos/.."):
        server.objects["bucket/" + key] = b"x"
        clear()
        code, said, _ = ffpack("s3://bucket/photos/", "-o", "out", *QUICK, env=env)
        tap.ok(code == 65 and "s3://bucket/%s: has an empty part, '.' or '..' between slashes" % key in said and said.count("\n") == 1, "refused: the key %s" % key, (code, said))
        del server.objects["bucket/" + key]


def parallel(server, env):
    """Requests run at the same time, whatever the number of jobs, and not all at once."""
    running, most, lock = [0], [0], threading.Lock()

    def fault(number, handler):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.03)
        with lock:
            running[0] -= 1
    server.fault = fault
    packed_as("of-photos", "photos from a slow server, one job", "s3://bucket/photos", "--jobs", "1", env=env)
    server.fault = None
    tap.ok(12 <= most[0] <= 33, "objects are fetched in parallel", most)


def changed(server, env):
    """An object that is removed, or gets another size, after the listing."""
    victim = "bucket/photos/dog/B.png"
    data = server.objects[victim]
    clear("other", "left")
    shutil.copytree("photos", "left/photos")
    os.remove("left/photos/dog/B.png")

    def spoil(to):
        def fault(number, handler):
            if ".png" in handler.path and "list-type" not in handler.path:
                server.objects.pop(victim, None)
                if to is not None:
                    server.objects[victim] = to
        return fault
    for name, to, wanted_code, words in (("removed", None, 74, "s3://bucket/photos/dog/B.png: was removed since it was listed"),
                                         ("longer", data + b"x", 65, "s3://bucket/photos/dog/B.png: changed since it was listed: has %d bytes, had %d" % (len(data) + 1, len(data))),
                                         ("shorter", data[:-1], 65, "s3://bucket/photos/dog/B.png: changed since it was listed: has %d bytes, had %d" % (len(data) - 1, len(data)))):
        for options in ([], ["--on-error", "skip", "--max-skip", "1"]):
            clear()
            server.objects[victim] = data
            server.forget()
            server.fault = spoil(to)
            code, said, _ = ffpack("s3://bucket/photos", "-o", "out", *QUICK, *options, env=env)
            server.fault = None
            skipped = open("out.skipped.tsv").read() if os.path.exists("out.skipped.tsv") else ""
            tap.ok(code == 0 and words in skipped and skipped.count("\n") == 2 if options else code == wanted_code and words in said and not os.path.exists("out"),
                   "an object that is %s after the listing%s" % (name, ", --on-error skip" if options else ""), (code, said, skipped))
    server.objects[victim] = data
    server.objects["bucket/broken/dog/gone.png"] = b""
    clear("other")
    local, remote = [ffpack(source, "-o", out, *QUICK, "--on-error", "skip", "--max-skip", "5", env=env) for source, out in (("broken", "other"), ("s3://bucket/broken", "out"))]
    del server.objects["bucket/broken/dog/gone.png"]
    clear()
    remote = ffpack("s3://bucket/broken", "-o", "out", *QUICK, "--on-error", "skip", "--max-skip", "5", env=env)
    listed = [open(name + ".skipped.tsv").read() for name in ("other", "out")]
    tap.ok(local[0] == remote[0] == 0 and same("out", "other")[0] and listed[0].replace("broken/", "s3://bucket/broken/") == listed[1], "--on-error skip leaves out the same", (local, remote, listed))


# ---- killed, in parts

def kill_within(process, number, partial, after=0.0):
    for _ in range(3000):
        if process.poll() is not None or (os.path.isdir(partial) and any(name.startswith("shard") for at, _, names in os.walk(partial) for name in names)):
            break
        time.sleep(0.002)
    time.sleep(after)
    process.send_signal(number)


def killed(server, env, times):
    """The same command continues a killed run, to the same bytes."""
    server.fault = lambda number, handler: time.sleep(0.004)
    for name, source, expected in (("http", server.url + "/bucket/photos.tar", "of-tar"), ("objects", "s3://bucket/photos/", "of-photos"), ("gzip", "s3://bucket/photos.tar.gz", "of-tar-gz"),
                                   ("the standard input", "-", "of-tar")):
        wrong, continued = [], 0
        for i in range(times):
            clear()
            for attempt in range(2):
                cat = subprocess.Popen(["cat", "photos.tar"], stdout=subprocess.PIPE) if source == "-" else None
                process = subprocess.Popen([FFPACK, source, "-o", "out", *QUICK, "--jobs", "1", "--shard-size", "8K"], env=env, stdin=cat.stdout if cat else subprocess.DEVNULL,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                kill_within(process, signal.SIGKILL, "out.partial", rng.uniform(0, 0.05))
                process.wait()
                process.stderr.close()
                if cat:
                    cat.stdout.close()
                    cat.wait()
            left = os.path.exists("out.partial")
            words = ["-o", "out", *QUICK, "--shard-size", "8K"]
            if not os.path.exists("out"):
                code, said, out = piped("photos.tar", *words) if source == "-" else ffpack(source, *words, env=env)
                continued += left and "continued" in out
                if code:
                    wrong.append((code, said))
            if not os.path.exists(expected + "-8K"):
                local = {"of-tar": "photos.tar", "of-photos": "photos", "of-tar-gz": "photos.tar.gz"}[expected]
                ffpack(local, "-o", expected + "-8K", *QUICK, "--shard-size", "8K")
            if not same("out", expected + "-8K")[0]:
                wrong.append(same("out", expected + "-8K"))
        tap.ok(not wrong, "killed runs from %s are continued (%d of %d)" % (name, continued, times), wrong)
    server.fault = None


def parts(server, env):
    for name, source, expected in (("http", server.url + "/bucket/photos.tar", "of-tar"), ("objects", "s3://bucket/photos/", "of-photos"), ("the standard input", "-", "of-tar")):
        clear("joined", "joined.part-1-of-2", "joined.part-2-of-2")
        said = []
        for part in (1, 2):
            words = ["-o", "joined.part-%d-of-2" % part, *QUICK, "--part", "%d/2" % part]
            said.append(piped("photos.tar", *words) if source == "-" else ffpack(source, *words, env=env))
        said.append(ffpack("merge", "joined", "--no-history"))
        tap.ok(all(one[0] == 0 for one in said) and same("joined", expected)[0], "two parts from %s" % name, (said, same("joined", expected)))


def interrupted(server, env):
    for name, source in (("http", server.url + "/bucket/photos.tar"), ("objects", "s3://bucket/photos/")):
        clear()
        server.forget()
        server.fault = lambda number, handler: ("status", 503, []) if number > (1 if name == "http" else 40) else None
        process = subprocess.Popen([FFPACK, source, "-o", "out", *QUICK], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        server.fault = None
        tap.ok(process.returncode == 130 and time.monotonic() - began < 5 and "stopped by SIGINT" in said, "stopped while the server does not answer: %s" % name, (process.returncode, said))
    reading, writing = os.pipe()
    process = subprocess.Popen([FFPACK, "-", "-o", "out", *QUICK], stdin=reading, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    os.close(writing)
    os.close(reading)
    tap.ok(process.returncode == 143 and "stopped by SIGTERM" in said, "stopped while nothing comes on the standard input", (process.returncode, said))


def appended(server, env):
    results = []
    for out, source in (("other", "photos"), ("out", "s3://bucket/photos")):
        clear(out)
        ffpack("more", "-o", out, *QUICK)
        results.append(ffpack("append", out, source, "--no-history", env=env))
    tap.ok(results[0][0] == results[1][0] == 0 and same("other", "out")[0], "ffpack append", results)


def make_others():
    for i in range(10):
        write("listed/%d.png" % i, picture(500 + i))
        for split in ("train", "val"):
            write("splits/%s/%s/%d.png" % (split, "ab"[i % 2], i), picture(600 + i))
        write("images/%s/%d" % ("xy"[i % 2], i), picture(700 + i))  # images without an ending
        write("broken/%s/%d.png" % (("cat", "dog")[i % 2], i), picture(800 + i) if i != 3 else picture(800 + i)[:200])
        for kind in ("cat", "dog", "a+b c"):
            write("more/%s/%d.png" % (kind, i), picture(900 + i))
    write("broken/cat/empty.png", b"")
    write("listed/labels.csv", b"path,label\n" + b"".join(b"%d.png,%d\n" % (i, i % 3) for i in range(10)))
    write("./data_batch_1.bin", b"\0" * 3073)
    numpy.save("x.npy", numpy.zeros((9, 8, 8, 3), numpy.uint8))
    write("./list.csv", b"path,label\na.png,1\n")


make_photos()
make_shards()
make_archives()
make_others()
make_expected()
server = Server(keys={"KEY": ("the/secret+", None)})
for folder in ("photos", "listed", "splits", "images", "broken"):
    server.add(folder, "bucket/" + folder)
for name in os.listdir("."):
    if os.path.isfile(name):
        with open(name, "rb") as file:
            server.objects["bucket/" + name] = file.read()
server.objects["bucket/with blank.tar"] = server.objects["bucket/100%25+more.tar"] = server.objects["bucket/changing.tar"] = server.objects["bucket/photos.tar"]
server.objects["bucket/page.html"], server.objects["bucket/empty.tar"] = b"<!doctype html>\n" * 100, b""
env = server.environment()
signed, server.keys = server.keys, {}
if tap.SHORT:
    archives(server, env)
    secrets(server)
    refused(server, env)
    cut_off(server)
    server.keys = signed
    objects(server, env)
    server.keys = {}
    markers(server, env)
    changed(server, env)
    parallel(server, env)
    parts(server, env)
    appended(server, env)
    faulty(server, env, 6)
if tap.LONG:
    interrupted(server, env)
    killed(server, env, 3)
    faulty(server, env, 60)
os.chdir("/")
shutil.rmtree(place)
tap.finish()
