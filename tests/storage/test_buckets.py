#!/usr/bin/python3
"""Sets that are written into a bucket: ffpack ls, push, pull and verify, and packing with -o s3://. The objects are the folder's
files, byte for byte; a reader sees the whole set or none, whatever fails and whenever a process is killed. Prints TAP."""
# Needs: ffpack ffinspect
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
from server import Server  # noqa: E402

try:
    import numpy
except ImportError as missing:
    tap.skip("sets in buckets", "Python lacks a module: %s" % missing)
    tap.finish()
FFPACK, FFINSPECT = (os.path.join(tap.BUILD, name) for name in ("ffpack", "ffinspect"))
place = tempfile.mkdtemp()
os.chdir(place)
dice = random.Random(int(os.environ.get("FF_SEED", "7")))


def run(*command, env=None, program=FFPACK):
    return subprocess.run([program, *map(str, command)], capture_output=True, text=True, timeout=300, env=env)


def pack(out, count, seed, *more):
    numpy.save("x%d.npy" % seed, numpy.random.RandomState(seed).randint(0, 256, (count, 32, 32, 3), dtype=numpy.uint8))
    made = run("x%d.npy" % seed, "-o", out, "--shard-size", "200K", *more)
    assert made.returncode == 0, made.stderr


def objects(server, prefix="bucket/set/"):
    """The set's objects, without its histories, by their names below the prefix."""
    return {name[len(prefix):]: data for name, data in server.objects.items() if name.startswith(prefix) and not name.endswith("history.jsonl")}


def indexes(server):
    return [name for name in server.objects if name.endswith("index.ffx")]


class Watch:
    """Whether, at every moment when an index was visible, all shards that it names were there with the folder's bytes."""

    def __init__(self, server, folder):
        self.files, self.order, self.wrong = tap.files_of(folder), [], []
        server.visible = lambda name: self.look(server, name)

    def look(self, server, name):
        self.order.append(name[len("bucket/set/"):])
        now = objects(server)
        for index in [one for one in now if one.endswith("index.ffx")]:
            below = index[:-len("index.ffx")]
            for shard in [one for one in self.files if one.startswith(below) and "/" not in one[len(below):]]:
                if now.get(shard) != self.files[shard]:
                    self.wrong.append((name, shard))


def listed(server, env):
    done = run("ls", "s3://bucket", env=env)
    tap.ok(done.returncode == 74 and "s3://bucket: there is nothing below it" in done.stderr, "ls of nothing", done.stderr)
    server.add("plain", "bucket/set")
    server.add("splits", "bucket/more/a b")
    server.objects["bucket/more/note <&> ü+%.txt"] = b"12345"
    done = run("ls", "s3://bucket/", env=env)
    sizes = [sum(len(data) for name, data in server.objects.items() if name.startswith("bucket/" + one)) for one in ("more/a b/train", "more/a b/val", "set")]
    said = lambda size: "%.1f KiB" % (size / 1024) if size < 1 << 20 else "%.1f MiB" % (size / (1 << 20))  # noqa: E731
    shards = [len([name for name in os.listdir(folder) if name.endswith(".ffs")]) for folder in ("splits/train", "splits/val", "plain")]
    wanted = ["more/a b/train  150 samples, %d shards, %s" % (shards[0], said(sizes[0])), "more/a b/val    40 samples, %d shards, %s" % (shards[1], said(sizes[1])),
              "set             200 samples, %d shards, %s" % (shards[2], said(sizes[2])), "and 1 object of no set, 5 B", ""]
    tap.ok(done.returncode == 0 and done.stdout.split("\n") == wanted, "ls: sets, samples, shards, sizes", (done.stdout, wanted, done.stderr))
    facts = json.loads(run("ls", "s3://bucket", "--json", env=env).stdout)
    known = json.loads(run("--json", "plain", program=FFINSPECT).stdout)["splits"][0]
    one = facts["sets"][-1]
    tap.ok([one["name"] for one in facts["sets"]] == ["more/a b/train", "more/a b/val", "set"] and one["content_id"] == known["ids"]["content"]
           and (one["samples"], one["shards"], one["bytes"], facts["other_objects"]) == (200, shards[2], sizes[2], 1), "ls --json", (facts, known))
    del server.objects["bucket/set/shard-000001.ffs"], server.objects["bucket/more/a b/val/index.ffx"]
    done = run("ls", "s3://bucket", env=env)
    tap.ok(", %d of %d shards, " % (shards[2] - 1, shards[2]) in done.stdout and "a b/val    %d shards, " % shards[1] in done.stdout and done.stdout.count("no index.ffx") == 1, "ls: a lost shard, a lost index", done.stdout)
    server.objects["bucket/set/index.ffx"] = b"x" * 9000
    done = run("ls", "s3://bucket", env=env)
    tap.ok(done.returncode == 65 and "s3://bucket/set/index.ffx" in done.stderr, "ls: an index that is none", done.stderr)
    done = run("ls", server.url + "/bucket", env=env)
    tap.ok(done.returncode == 2 and "a web server cannot be listed" in done.stderr, "ls of a web server", done.stderr)
    server.objects.clear()


def pushed(server, env):
    for folder, names in (("plain", ["index.ffx"]), ("splits", ["val/index.ffx", "train/index.ffx"])):
        watch = Watch(server, folder)
        done = run("push", folder, "s3://bucket/set/", env=env)
        tap.ok(done.returncode == 0 and objects(server) == watch.files and not server.parts, "push: the folder's bytes: %s" % folder, done.stderr)
        tap.ok(watch.order[-len(names):] == names and not watch.wrong, "push: the index comes last: %s" % folder, (watch.order, watch.wrong))
        server.forget()
        done = run("push", folder, "s3://bucket/set", env=env)
        tap.ok(done.returncode == 0 and "; sent 0 files, 0 B" in done.stdout and not [one for one in server.log if one[0] != "GET"], "push: what is there is not sent again: %s" % folder, done.stdout)
        del server.objects["bucket/set/%sshard-000000.ffs" % ("" if folder == "plain" else "val/")]
        done = run("push", folder, "s3://bucket/set", env=env)
        tap.ok("; sent 1 file, " in done.stdout and objects(server) == watch.files, "push: a lost shard is sent again: %s" % folder, done.stdout)
        server.objects.clear()


def by_option(server, env):
    """--endpoint names the server; the environment names none, or a wrong one."""
    nowhere = {**env, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    to = ("--endpoint", server.url)
    commands = [("push", "plain", "s3://bucket/set"), ("ls", "s3://bucket"), ("pull", "s3://bucket/set", "by-option"),
                ("verify", "s3://bucket/set", "--cache", "by-cache"), (*SOURCE, "-o", "s3://bucket/made", "--cache", "by-cache", "--force")]
    for command in commands:
        done = run(*command, *to, env=nowhere)
        tap.ok(done.returncode == 0, "--endpoint of %s" % (command[0] if command[0] in ("push", "ls", "pull", "verify") else "packing"), done.stderr)
    tap.ok(os.listdir("by-cache") and "bucket/made/train/index.ffx" in server.objects and sorted(os.listdir("by-option")) == sorted(os.listdir("plain")),
           "what they did there, and --cache", (os.listdir("by-cache"), sorted(server.objects)))
    done = run("push", "plain", "s3://bucket/other", "--storage-timeout", 1, env=nowhere)
    tap.ok(done.returncode == 74 and "s3://bucket/other" in done.stderr, "--storage-timeout: no server", done.stderr)
    server.objects.clear()


def replaced(server, env):
    run("push", "plain", "s3://bucket/set", env=env)
    before = dict(server.objects)
    for folder in ("small", "splits"):
        done = run("push", folder, "s3://bucket/set", env=env)
        tap.ok(done.returncode == 2 and "s3://bucket/set: exists already, as another set" in done.stderr and "--force replaces it" in done.stderr and server.objects == before,
               "push: another set is refused: %s" % folder, done.stderr)
    watch = Watch(server, "small")
    server.forget()
    done = run("push", "small", "s3://bucket/set", "--force", env=env)
    written = [one[:2] for one in server.log if one[0] != "GET"]
    tap.ok(done.returncode == 0 and objects(server) == watch.files and not watch.wrong and written[0] == ("DELETE", "bucket/set/index.ffx"),
           "push --force: the old set is invisible first, and nothing of it stays", (done.stderr, written))
    done = run("push", "splits", "s3://bucket/set", "--force", env=env)
    tap.ok(done.returncode == 0 and objects(server) == tap.files_of("splits"), "push --force: splits instead of one set", (done.stderr, sorted(server.objects)))
    server.objects["bucket/set/test/index.ffx"] = before["bucket/set/index.ffx"]
    done = run("push", "splits", "s3://bucket/set", env=env)
    tap.ok(done.returncode == 2 and "its test/index.ffx is another" in done.stderr, "push: a split of another set, where readers look", done.stderr)
    del server.objects["bucket/set/test/index.ffx"]
    for command, code, words in ((("push", "none", "s3://bucket/a"), 74, "none: no such folder"), (("push", "source", "s3://bucket/a"), 65, "is not a packed dataset"),
                                 (("push", "plain", server.url + "/bucket/a"), 2, "a web server cannot be written"), (("push", "plain"), 2, "wanted ffpack push DIR URL"),
                                 (("pull", "plain", "b"), 2, "plain: is not a URL"), (("pull", "s3://bucket/set", "a", "-o", "b"), 2, "wanted ffpack pull URL DIR, or URL -o DIR"), (("pull", "s3://bucket/none", "b"), 74, "there is no index.ffx"),
                                 (("append", "s3://bucket/set", "x1.npy"), 2, "is a URL, and append changes a set in a folder"), (("repair", "s3://bucket/set"), 2, "is a URL"),
                                 (("merge", "s3://bucket/set", "a", "b"), 2, "the parts of a set in a bucket lie there"), (("copy", "plain", "-o", "s3://bucket/b"), 2, "is a URL")):
        server.forget()
        done = run(*command, env=env)
        tap.ok(done.returncode == code and words in done.stderr and done.stderr.count("\n") == 1 and not [one for one in server.log if one[0] not in ("GET",)] and not os.path.exists("s3:"),
               "refused: ffpack %s" % " ".join(command).replace(server.url, "URL"), (done.returncode, done.stderr))
    server.objects.clear()


def in_parts(server, env):
    """A shard of several parts; faults of its joining."""
    def faulty(kind, times):
        left = [times]

        def fault(number, handler):
            if handler.command == "POST" and "uploadId" in handler.query and left[0]:
                left[0] -= 1
                return (kind,)
            return None
        return fault

    files = tap.files_of("large")
    for kind, times, good in (("none", 0, True), ("late", 2, True), ("lost", 1, True), ("late", 9, False)):
        server.objects.clear()
        server.fault = faulty(kind, times)
        done = run("push", "large", "s3://bucket/set", env=env)
        server.fault = None
        tap.ok((done.returncode == 0 and objects(server) == files) if good else done.returncode == 74 and "cannot join the parts: InternalError" in done.stderr and not indexes(server),
               "in parts, %s %d times" % (kind, times), done.stderr)
        tap.ok(not server.parts, "no parts stay, %s %d times" % (kind, times), list(server.parts))
    tags = {name: server.tags.get(name) for name in server.objects}
    run("push", "large", "s3://bucket/set", env=env)
    server.forget()
    done = run("push", "large", "s3://bucket/set", env=env)
    tap.ok("; sent 0 files" in done.stdout and not [one for one in server.log if one[0] != "GET"], "parts that are there are not sent again", (done.stdout, tags))
    server.objects.clear()
    for number in range(5):  # as killed processes leave them
        server.parts["old%d" % number] = ("bucket/set/shard-00000%d.ffs" % (number % 2), {1: b"x"})
    server.parts["other"] = ("bucket/set/other", {})
    run("push", "large", "s3://bucket/set", env=env)
    tap.ok(list(server.parts) == ["other"], "parts of killed processes are removed, others are not", list(server.parts))
    server.parts.clear()
    server.objects.clear()


def flaky(number, handler):
    kind = dice.random()
    return ("status", dice.choice((500, 503, 429, 408)), []) if kind < 0.15 else ("reset",) if kind < 0.25 else ("cut", 100) if kind < 0.3 else None


def with_faults(server, env, rounds):
    for i in range(rounds):
        folder = dice.choice(("plain", "splits", "large"))
        server.objects.clear()
        watch = Watch(server, folder)
        server.fault = flaky
        done = run("push", folder, "s3://bucket/set", env=env)
        fetched = run("pull", "s3://bucket/set", "pulled", env=env)
        server.fault = None
        tap.ok(done.returncode == 0 and objects(server) == watch.files and not watch.wrong and not server.parts, "push with drawn faults, %d: %s" % (i, folder), (done.stderr, watch.wrong, list(server.parts)))
        tap.ok(fetched.returncode == 0 and tap.files_of("pulled") == watch.files, "pull with drawn faults, %d" % i, fetched.stderr)
        shutil.rmtree("pulled", ignore_errors=True)
    for code, name in ((403, "refused"), (404, "no bucket")):
        server.objects.clear()
        begin = dice.randrange(1, 6)
        server.fault = lambda number, handler: ("status", code, []) if handler.command != "GET" and server.requests > begin else None
        server.forget()
        done = run("push", "plain", "s3://bucket/set", env=env)
        server.fault = None
        tap.ok(done.returncode == 74 and "s3://bucket/set/" in done.stderr and str(code) in done.stderr and done.stderr.count("\n") == 1 and not indexes(server), "push: %s" % name, done.stderr)
    server.objects.clear()


def kill_after(command, env, seconds):
    process = subprocess.Popen([FFPACK, *command], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    said = process.communicate(timeout=60)[1]
    return process.returncode, said


def stop_sending(server, command, env):
    """The answer to SIGINT that arrives once the server was asked to keep part of a shard."""
    server.forget()
    process = subprocess.Popen([FFPACK, *command], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not any(one[0] == "PUT" and one[1].endswith(".ffs") for one in list(server.log)):
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    return process.returncode, said


def slow(seconds):
    return lambda number, handler: ("stall", seconds)


def killed_pushes(server, env, kills):
    for i in range(kills):
        folder = dice.choice(("plain", "splits", "large"))
        server.objects.clear()
        watch = Watch(server, folder)
        server.fault = slow(0.03)
        rounds = 0
        for _ in range(4):
            kill_after(["push", folder, "s3://bucket/set"], env, dice.uniform(0.05, 0.6))
            rounds += 1
        server.fault = None
        server.settle()
        server.forget()
        there = len([name for name in server.objects if name.endswith(".ffs")])
        done = run("push", folder, "s3://bucket/set", env=env)
        sent = len({one[1] for one in server.log if one[0] in ("PUT", "POST") and one[1].endswith(".ffs")})
        shards = len([name for name in watch.files if name.endswith(".ffs")])
        tap.ok(done.returncode == 0 and objects(server) == watch.files and not watch.wrong and sent == shards - there and not server.parts,
               "push killed %d times, then continued, %d: %s" % (rounds, i, folder), (done.stderr, watch.wrong, sent, shards, there, list(server.parts)))
    server.objects.clear()
    server.fault = slow(0.2)
    code, said = stop_sending(server, ["push", "large", "s3://bucket/set"], env)
    time.sleep(0.5)
    server.fault = None
    tap.ok(code == 130 and said.count("\n") == 1 and "SIGINT" in said and not indexes(server) and not server.parts, "push stopped by SIGINT: no parts stay", (code, said, list(server.parts)))
    server.objects.clear()


def pulled(server, env, kills):
    for folder in ("plain", "splits", "large"):
        server.objects.clear()
        server.add(folder, "bucket/set")
        files = {os.path.relpath(os.path.join(at, name), folder): open(os.path.join(at, name), "rb").read() for at, _, names in os.walk(folder) for name in names}
        for url in ("s3://bucket/set", server.url + "/bucket/set"):
            if url.startswith("http"):
                signed, server.keys = server.keys, {}
            done = run("pull", url, *(["-o"] if folder == "splits" else []), "out", env=env)
            got = {os.path.relpath(os.path.join(at, name), "out"): open(os.path.join(at, name), "rb").read() for at, _, names in os.walk("out") for name in names}
            tap.ok(done.returncode == 0 and got == files, "pull: %s from %s" % (folder, url.split(":")[0]), done.stderr)
            if url.startswith("http"):
                server.keys = signed
            shutil.rmtree("out", ignore_errors=True)
    run("pull", "s3://bucket/set", "out", env=env)
    done = run("pull", "s3://bucket/set", "out", env=env)
    tap.ok(done.returncode == 2 and "out: exists already; --force replaces it" in done.stderr, "pull: a folder that exists", done.stderr)
    server.objects.clear()
    server.add("plain", "bucket/set")
    done = run("pull", "s3://bucket/set", "out", "--force", env=env)
    tap.ok(done.returncode == 0 and tap.files_of("out") == tap.files_of("plain"), "pull --force", done.stderr)
    shutil.rmtree("out")
    name = "bucket/set/shard-000002.ffs"
    whole, at = server.objects[name], len(server.objects[name]) // 2
    server.objects[name] = whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1:]
    done = run("pull", "s3://bucket/set", "out", env=env)
    tap.ok(done.returncode == 65 and "shard-000002.ffs" in done.stderr and not os.path.exists("out"), "pull: a changed bit", done.stderr)
    server.objects[name] = whole
    server.forget()
    done = run("pull", "s3://bucket/set", "out", env=env)
    fetched = {one[1] for one in server.log if one[1].endswith(".ffs")}
    tap.ok(done.returncode == 0 and tap.files_of("out") == tap.files_of("plain") and fetched == {name}, "pull: the broken shard alone is fetched again", (done.stderr, fetched))
    shutil.rmtree("out")
    del server.objects[name]
    done = run("pull", "s3://bucket/set", "out", env=env)
    tap.ok(done.returncode == 65 and name[7:] in done.stderr and "is missing" in done.stderr and not os.path.exists("out"), "pull: a shard that is missing", done.stderr)
    shutil.rmtree("out.partial")
    for i in range(kills):
        folder = dice.choice(("plain", "splits", "large"))
        server.objects.clear()
        server.add(folder, "bucket/set")
        server.fault = slow(0.03)
        early = False
        for _ in range(4):
            kill_after(["pull", "s3://bucket/set", "out"], env, dice.uniform(0.05, 0.5))
            early |= os.path.exists("out") and tap.files_of("out") != tap.files_of(folder)
        server.fault = None
        done = run("pull", "s3://bucket/set", "out", "--force", env=env)
        tap.ok(done.returncode == 0 and not early and tap.files_of("out") == tap.files_of(folder), "pull killed 4 times, then continued, %d: %s" % (i, folder), done.stderr)
        shutil.rmtree("out")
    server.objects.clear()


def verified(server, env):
    server.add("splits", "bucket/set")
    name = "bucket/set/train/shard-000001.ffs"
    for broken in (False, True):
        if broken:
            whole = server.objects[name]
            server.objects[name] = whole[:9000] + bytes([whole[9000] ^ 1]) + whole[9001:]
            shutil.rmtree("cache", ignore_errors=True)
            os.makedirs("damaged/train")
            for one in os.listdir("splits/train"):
                shutil.copy("splits/train/" + one, "damaged/train")
            shutil.copytree("splits/val", "damaged/val")
            with open("damaged/train/shard-000001.ffs", "wb") as file:
                file.write(server.objects[name])
        for path in ("s3://bucket/set", "damaged" if broken else "splits"):
            done = run("verify", path, env=env)
            like = run(path, "--verify", env=env, program=FFINSPECT)
            tap.ok(done.returncode == like.returncode == (65 if broken else 0) and sorted(done.stdout.split("\n")) == sorted(like.stdout.split("\n")) and (done.stdout.count("all good") == 1 if broken else 2),
                   "verify: %s, %s" % (path, "a changed bit" if broken else "whole"), (done.stdout, done.stderr, like.stdout, like.stderr))
    server.objects.clear()
    server.add("large", "bucket/set")
    done = run("verify", "s3://bucket/set", "--cache", "cache/little", "--cache-size", "25M", "-j", 1, env=env)
    like = run("verify", "large")
    tap.ok(done.returncode == 0 and done.stdout.split(":", 2)[-1] == like.stdout.split(":", 1)[-1] and disk_bytes("cache/little") < 27 << 20, "verify: a set that is larger than the cache", (done.stdout, done.stderr, like.stdout))
    done = run("verify", "none")
    tap.ok(done.returncode == 74 and done.stderr.count("\n") == 1, "verify: nothing there", done.stderr)
    server.objects.clear()
    shutil.rmtree("damaged")


def disk_bytes(folder):
    """What the shards of a folder take on the disk."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(at, name)).st_blocks * 512
            except OSError:
                pass
    return total


SOURCE = ["source", "--dtype", "u8", "--shard-size", "200K", "-j", "2"]


def packed(server, env):
    cases = (("u8 with computed mean", []), ("f16, given mean", ["--dtype", "f16", "--normalize", "half"]), ("zstd and shuffled", ["--compress", "zstd", "--shuffle", "3"]))
    for name, more in cases:
        shutil.rmtree("folder", ignore_errors=True)
        made = run(*SOURCE, *more, "-o", "folder")
        assert made.returncode == 0, made.stderr
        server.objects.clear()
        watch = Watch(server, "folder")
        done = run(*SOURCE, *more, "-o", "s3://bucket/set", env=env)
        tap.ok(done.returncode == 0 and objects(server) == watch.files and not watch.wrong and watch.order[-1] == "train/index.ffx", "-o s3://: the bytes of a folder: %s" % name, (done.stderr, watch.wrong, watch.order[-3:]))
        tap.ok("s3://bucket/set/train" in done.stdout and "cache" not in done.stdout and os.listdir("cache") == [], "-o s3://: nothing stays here, the summary names the URL: %s" % name, (done.stdout, os.listdir("cache")))
    history = json.loads(server.objects["bucket/set/train/history.jsonl"])
    tap.ok(history["arguments"][-1] == "s3://bucket/set" and history["command"] == "pack", "-o s3://: the history", history)
    before = dict(server.objects)
    done = run(*SOURCE, "-o", "s3://bucket/set", env=env)
    tap.ok(done.returncode == 2 and "exists already" in done.stderr and server.objects == before, "-o s3://: a set that exists is refused", done.stderr)
    shutil.rmtree("folder")
    run(*SOURCE, "-o", "folder")
    watch = Watch(server, "folder")
    done = run(*SOURCE, "-o", "s3://bucket/set", "--force", env=env)
    tap.ok(done.returncode == 0 and objects(server) == watch.files and not watch.wrong, "-o s3:// --force", done.stderr)
    server.objects.clear()
    done = run(*SOURCE, "-o", "s3://bucket/set", "--dry-run", env=env)
    tap.ok(done.returncode == 0 and not server.objects, "-o s3:// --dry-run", done.stderr)
    for more, words in ((["--part", "1/2", "--force"], "--force: with --part is for folders"), (["--if-changed"], "--if-changed: is for a folder"), (["--resume"], "nothing to --resume")):
        done = run(*SOURCE, "-o", "s3://bucket/set", *more, env=env)
        tap.ok(done.returncode == 2 and words in done.stderr and not server.objects, "-o s3:// %s is refused" % " ".join(more), done.stderr)
    done = run(*SOURCE, "-o", server.url + "/bucket/set", env=env)
    tap.ok(done.returncode == 2 and "a web server cannot be written" in done.stderr, "-o http://", done.stderr)
    server.fault = lambda number, handler: ("status", 403, [])
    done = run(*SOURCE, "-o", "s3://bucket/set", env=env)
    server.fault = None
    tap.ok(done.returncode == 74 and "403" in done.stderr and done.stderr.count("\n") == 1, "-o s3://: refused before anything is packed", done.stderr)
    server.fault = lambda number, handler: ("status", 403, []) if handler.command == "PUT" and handler.name.endswith("3.ffs") else None
    done = run(*SOURCE, "-o", "s3://bucket/set", env=env)
    server.fault = None
    tap.ok(done.returncode == 74 and "403" in done.stderr and "this continues: " in done.stderr and not indexes(server), "-o s3://: refused in the middle", done.stderr)
    server.forget()
    done = run(*SOURCE, "-o", "s3://bucket/set", env=env)
    again = [one[1] for one in server.log if one[0] == "PUT" and one[1].endswith("000000.ffs")]
    tap.ok(done.returncode == 0 and objects(server) == watch.files and "bucket/set/train/shard-000000.ffs" not in again, "-o s3://: and continued", (done.stderr, again))
    server.objects.clear()


def small_disk(server, env):
    """The server is slow, so packing waits for it; few shards are on the disk at any time, and the upload cuts parts of 8 MiB."""
    server.fault = lambda number, handler: ("stall", 0.05) if handler.command == "PUT" else None
    most, done = 0, False

    def watch():
        nonlocal most
        while not done:
            most = max(most, disk_bytes("cache"))
            time.sleep(0.002)
    thread = threading.Thread(target=watch)
    thread.start()
    made = run("source", "--dtype", "f32", "--normalize", "half", "--shard-size", "100K", "-o", "s3://bucket/set", env=env)
    done = True
    thread.join()
    server.fault = None
    all_bytes = sum(map(len, server.objects.values()))
    shards = [len(data) for name, data in server.objects.items() if name.endswith(".ffs")]
    tap.ok(made.returncode == 0 and most < 12 * max(shards) + 12000 * len(shards) < all_bytes, "-o s3://: little space on the disk", (made.stderr, most, max(shards), len(shards), all_bytes))
    server.objects.clear()


def left_out(server, env):
    shutil.copytree("source", "flawed")
    with open("flawed/train/a/0.png", "wb") as file:
        file.write(b"no image")
    with open("flawed/val/b/1.png", "wb") as file:
        file.write(b"\x89PNG")
    more = ["flawed", "--dtype", "u8", "--on-error", "skip", "--max-skip", "10%"]
    run(*more, "-o", "folder2")
    done = run(*more, "-o", "s3://bucket/set", env=env)
    with open("folder2.skipped.tsv", "rb") as file:
        wanted = file.read()
    got = server.objects.pop("bucket/set/skipped.tsv", None)
    tap.ok(done.returncode == 0 and got == wanted and objects(server) == tap.files_of("folder2") and "s3://bucket/set/skipped.tsv" in done.stdout and os.listdir("cache") == [],
           "-o s3://: the list of items left out", (done.stderr, done.stdout, got, os.listdir("cache")))
    server.objects.clear()


def in_many_parts(server, env):
    """Parts on several machines, each with a cache of its own, in any order, some killed; then a merge that moves no shard."""
    flawed = ["--on-error", "skip", "--max-skip", "10%"]
    for name, source, more, count in (("u8", "source", [], 3), ("zstd, left out", "flawed", ["--compress", "zstd", *flawed], 2), ("more parts than shards", "source", ["--shard-size", "2M"], 5)):
        command = [source, *SOURCE[1:], *more]
        shutil.rmtree("folder3", ignore_errors=True)
        assert run(*command, "-o", "folder3").returncode == 0
        server.objects.clear()
        watch = Watch(server, "folder3")
        parts = list(range(1, count + 1))
        dice.shuffle(parts)
        for part in parts:
            own = {**env, "FFPACK_CACHE": "cache%d" % part}
            if part == parts[-1] and count < 5:
                done = run("merge", "s3://bucket/set", env=env)
                tap.ok(done.returncode in (2, 65) and done.stderr.count("\n") == 1 and not indexes(server), "a merge without part %d/%d is refused: %s" % (part, count, name), (done.stderr, done.returncode))
            if dice.random() < 0.5:
                server.fault = slow(0.02)
                kill_after([*command, "-o", "s3://bucket/set", "--part", "%d/%d" % (part, count)], own, dice.uniform(0.05, 0.5))
                server.fault = None
            done = run(*command, "-o", "s3://bucket/set", "--part", "%d/%d" % (part, count), env=own)
            tap.ok(done.returncode == 0 and os.listdir("cache%d" % part) == [], "part %d/%d leaves nothing here: %s" % (part, count, name), (done.stderr, os.listdir("cache%d" % part)))
        server.forget()
        done = run("merge", "s3://bucket/set", env=env)
        moved = [one for one in server.log if one[0] in ("PUT", "POST") and one[1].endswith(".ffs")]
        read, skipped, wanted = server.bytes, server.objects.pop("bucket/set/skipped.tsv", None), None
        if "out" in name:
            with open("folder3.skipped.tsv", "rb") as file:
                wanted = file.read()
        tap.ok(done.returncode == 0 and objects(server) == watch.files and not watch.wrong and not moved and skipped == wanted and os.listdir("cache") == [],
               "merge s3://: the bytes of one run: %s" % name, (done.stderr, sorted(server.objects), sorted(watch.files), watch.wrong, moved, skipped, os.listdir("cache")))
        total = sum(map(len, server.objects.values()))
        tap.ok(read < total / 2, "merge s3:// reads the ends of the shards: %s" % name, (read, total))
        histories = server.objects["bucket/set/train/history.jsonl"].decode().splitlines()
        tap.ok([json.loads(line)["command"] for line in histories] == ["pack"] * count + ["merge"], "merge s3://: the histories: %s" % name, histories)
        for part in parts:
            shutil.rmtree("cache%d" % part)
    server.objects.clear()
    run(*SOURCE, "-o", "s3://bucket/set", "--part", "1/2", env=env)
    run(*SOURCE, "--resize", "16x16", "-o", "s3://bucket/set", "--part", "2/2", env=env)
    done = run("merge", "s3://bucket/set", env=env)
    tap.ok(done.returncode == 2 and "parts of different sets" in done.stderr and not indexes(server), "merge s3://: parts with other options", done.stderr)
    run(*SOURCE, "-o", "s3://bucket/set", "--part", "2/2", env=env)
    lost = server.objects.pop("bucket/set/train/shard-000001.ffs")
    done = run("merge", "s3://bucket/set", env=env)
    tap.ok(done.returncode == 65 and "shard-000001.ffs: is missing; pack --part 1/2 again" in done.stderr, "merge s3://: a shard that is missing", done.stderr)
    server.objects["bucket/set/train/shard-000001.ffs"] = lost[:-1] + bytes([lost[-1] ^ 1])
    done = run("merge", "s3://bucket/set", env=env)
    tap.ok(done.returncode == 65 and "shard-000001.ffs" in done.stderr and not indexes(server), "merge s3://: a broken shard", done.stderr)
    for more, words in ((["--wait"], "--wait: is for folders"), (["part"], "the parts of a set in a bucket lie there")):
        done = run("merge", "s3://bucket/set", *more, env=env)
        tap.ok(done.returncode == 2 and words in done.stderr, "merge s3:// %s is refused" % more[0], done.stderr)
    server.objects.clear()
    done = run("merge", "s3://bucket/set", env=env)
    tap.ok(done.returncode == 2 and "no part is there" in done.stderr and os.listdir("cache") == [], "merge s3:// without parts", (done.stderr, os.listdir("cache")))


def killed_packings(server, env, kills):
    command = [*SOURCE, "-o", "s3://bucket/set"]
    for i in range(kills):
        server.objects.clear()
        watch = Watch(server, "folder")
        server.fault = slow(0.01)
        for _ in range(5):
            kill_after(command, env, dice.uniform(0.02, 0.8))
        if dice.random() < 0.3:  # somebody removes a shard that was sent
            sent = [name for name in server.objects if name.endswith(".ffs")]
            if sent and not indexes(server):
                del server.objects[dice.choice(sent)]
        server.fault = flaky if dice.random() < 0.3 else None
        done = run(*command, env=env)
        server.fault = None
        whole = done.returncode == 0 or "exists already" in done.stderr  # all was sent before it was killed
        tap.ok(whole and objects(server) == watch.files and not watch.wrong and not server.parts, "-o s3:// killed 5 times, then continued, %d" % i,
               (done.stderr, watch.wrong, sorted(objects(server)), list(server.parts)))
        shutil.rmtree("cache")
    server.objects.clear()
    server.fault = slow(0.1)
    code, said = stop_sending(server, command, env)
    server.fault = None
    tap.ok(code == 130 and "SIGINT" in said and "this continues" in said and not indexes(server) and not server.parts, "-o s3:// stopped by SIGINT",
           (code, said, indexes(server), list(server.parts)))
    done = run(*command, env=env)
    tap.ok(done.returncode == 0 and objects(server) == tap.files_of("folder"), "-o s3:// continued after SIGINT", done.stderr)
    server.objects.clear()


def make_source():
    from PIL import Image
    for split, count in (("train", 300), ("val", 80)):
        for name in ("a", "b"):
            os.makedirs("source/%s/%s" % (split, name))
            for i in range(count // 2):
                pixels = numpy.random.RandomState(count + i).randint(0, 256, (32, 32, 3), dtype=numpy.uint8)
                Image.fromarray(pixels).save("source/%s/%s/%d.png" % (split, name, i), compress_level=1)


pack("plain", 200, 1)
pack("small", 90, 4)
pack("splits/train", 150, 2)
pack("splits/val", 40, 3)
numpy.save("x5.npy", numpy.random.RandomState(5).randint(0, 256, (900, 128, 128, 3), dtype=numpy.uint8))
assert run("x5.npy", "-o", "large", "--dtype", "u8", "--shard-size", "20M").returncode == 0
make_source()
server = Server(keys={"KEY": ("the/secret+", None)})
env = server.environment(FFPACK_CACHE="cache")
os.mkdir("cache")
if tap.SHORT:
    listed(server, env)
    pushed(server, env)
    by_option(server, env)
    replaced(server, env)
    in_parts(server, env)
    with_faults(server, env, 2)
    killed_pushes(server, env, 2)
    pulled(server, env, 2)
    verified(server, env)
    shutil.rmtree("cache")
    os.mkdir("cache")
    packed(server, env)
    small_disk(server, env)
    left_out(server, env)
    in_many_parts(server, env)
    killed_packings(server, env, 3)
if tap.LONG:
    run(*SOURCE, "-o", "folder", "--force")
    with_faults(server, env, 20)
    killed_pushes(server, env, 20)
    pulled(server, env, 20)
    killed_packings(server, env, 40)
os.chdir("/")
shutil.rmtree(place)
tap.finish()
