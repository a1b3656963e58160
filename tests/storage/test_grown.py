#!/usr/bin/python3
"""ffpack push of a set that was appended to, onto the older set in the bucket: only what is new is sent, the index last. Readers of the
older set keep it; at every moment, and after a kill at any, readers find one of the two sets, whole. Prints TAP."""
# Needs: ffpack ffinspect python
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from server import Server
from remote_sets import FFINSPECT, FFPACK, batches, batches_or_words, numpy, run, tap
place = tempfile.mkdtemp()
os.chdir(place)
dice = random.Random(int(os.environ.get("FF_SEED", "5")))


def items(name, count, seed):
    numpy.save(name + ".npy", numpy.random.RandomState(seed).randint(0, 256, (count, 32, 32, 3), dtype=numpy.uint8))
    return name + ".npy"


def make(folder, *commands):
    """Packs and appends: sets/FOLDER0 is the first generation, sets/FOLDER1 the second..."""
    for number, command in enumerate(commands):
        own = "%s%d" % (folder, number)
        if number:
            shutil.copytree("%s%d" % (folder, number - 1), own)
            command = ("append", own, *command)
        else:
            command = (*command, "-o", own)
        done = run(FFPACK, *command)
        assert done.returncode == 0, done.stderr


def below(server):
    """The set's objects without its histories."""
    return {name[len("bucket/set/"):]: data for name, data in server.objects.items() if name.startswith("bucket/set/") and not name.endswith("history.jsonl")}


def without_history(folder):
    return {name: data for name, data in tap.files_of(folder).items() if not name.endswith("history.jsonl")}


class Watch:
    """At every moment each index that is there is one of these folders', and all its shards are there."""

    def __init__(self, server, *folders):
        self.server, self.wrong, self.order = server, [], []
        self.sets = [without_history(folder) for folder in folders]
        server.visible = self.look

    def look(self, name):
        self.order.append(name[len("bucket/set/"):])
        now = below(self.server)
        for index in [one for one in now if one.endswith("index.ffx")]:
            stem = index[:-len("index.ffx")]
            own = [one for one in self.sets if one.get(index) == now[index]]
            if not own or any(now.get(file) != data for file, data in own[0].items() if file.startswith(stem) and "/" not in file[len(stem):]):
                self.wrong.append((name, index))


def fill(server, folder):
    server.objects.clear()
    server.tags.clear()
    server.add(folder, "bucket/set")
    server.forget()


def push(folder, *options):
    return run(FFPACK, "push", folder, "s3://bucket/set", *options)


def pushed(server):
    for name, splits in (("plain", ["index.ffx"]), ("split", ["val/index.ffx", "train/index.ffx"])):
        for first, last in ((0, 1), (1, 2), (0, 2)):
            old, new = "%s%d" % (name, first), "%s%d" % (name, last)
            fill(server, old)
            watch = Watch(server, old, new)
            done = push(new)
            wanted, before = without_history(new), without_history(old)
            sent = [file for file in watch.order if not file.endswith("history.jsonl")]
            added = sorted(file for file in wanted if file not in before) + splits
            tap.ok(done.returncode == 0 and below(server) == wanted and not watch.wrong and sorted(sent) == sorted(added) and watch.order[-len(splits):] == splits
                   and not [one for one in server.log if one[0] == "DELETE"], "%s onto %s: the new shards, then the index" % (new, old), (done.stderr, sent, added, watch.wrong, watch.order))
            histories = {file: data for file, data in tap.files_of(new).items() if file.endswith("history.jsonl")}
            tap.ok(all(server.objects["bucket/set/" + file] == data for file, data in histories.items()), "%s onto %s: its history" % (new, old))
            server.forget()
            done = push(new)
            tap.ok(done.returncode == 0 and "; sent 0 files, 0 B" in done.stdout, "%s again: nothing is sent" % new, done.stdout + done.stderr)


def refused(server):
    """What is not an earlier generation is another set."""
    for new, old, why in (("plain0", "plain1", "an older one onto a newer"), ("other1", "plain0", "another first generation"), ("fork1", "plain1", "another second generation"),
                          ("fork1", "plain2", "another second generation, of fewer shards"), ("split1", "plain0", "several splits"), ("classes1", "plain0", "other labels")):
        fill(server, old)
        before = dict(server.objects)
        done = push(new)
        tap.ok(done.returncode == 2 and "exists already, as another set" in done.stderr and "--force replaces it" in done.stderr and server.objects == before, "%s is refused" % why, (done.stdout, done.stderr))
    fill(server, "plain0")
    server.objects["bucket/set/val/index.ffx"] = b"x" * 9000
    done = push("plain1")
    tap.ok(done.returncode == 2 and "val/index.ffx" in done.stderr, "an index of another split is refused", done.stderr)
    fill(server, "plain0")
    server.objects["bucket/set/index.ffx"] = server.objects["bucket/set/index.ffx"][:5000]
    done = push("plain1")
    tap.ok(done.returncode == 2, "an index that is cut short is refused", (done.returncode, done.stderr))
    # A shard of the older set that is damaged there is sent again.
    fill(server, "plain0")
    server.objects["bucket/set/shard-000001.ffs"] = server.objects["bucket/set/shard-000001.ffs"][:-1] + b"x"
    done = push("plain1")
    tap.ok(done.returncode == 0 and below(server) == without_history("plain1"), "a damaged shard of the older set is sent again", done.stderr)


def read(server):
    """Loaders that read all along have the batches of the older set or of the newer one; the one that was opened before keeps the older one."""
    expected = {name: batches(name, epochs=2) for name in ("plain0", "plain1", "plain2")}
    fill(server, "plain0")
    watch, stop, found = Watch(server, "plain0", "plain1", "plain2"), threading.Event(), []

    def slow(number, handler):
        return ("stall", 0.03 if handler.command == "PUT" else 0.005)

    def reader(number):
        while not stop.is_set():
            shutil.rmtree("cache%d" % number, ignore_errors=True)
            found.append(batches_or_words("s3://bucket/set", epochs=2, cache="cache%d" % number))
    server.fault = slow
    readers = [threading.Thread(target=reader, args=(number,)) for number in range(3)]
    for one in readers:
        one.start()
    time.sleep(1)
    codes = [push("plain1").returncode]
    time.sleep(1)
    codes.append(push("plain2").returncode)
    time.sleep(1)
    stop.set()
    for one in readers:
        one.join()
    server.fault = None
    names = {name: sum(one == batch for one in found) for name, batch in expected.items()}
    wrong = [one for one in found if one not in expected.values()]
    tap.ok(codes == [0, 0] and not wrong and not watch.wrong and names["plain0"] and names["plain2"], "%d loaders while two generations are pushed: each has one of the sets (%s)" % (len(found), names), [str(one)[:300] for one in wrong])


def replaced_while_opened(server):
    """The index changes between the two requests that read it."""
    for times in (1, 2):
        fill(server, "plain0")
        shutil.rmtree("cache", ignore_errors=True)
        left, sets = [times], ["plain1", "plain2"]

        def fault(number, handler):
            if handler.name.endswith("index.ffx") and not handler.headers["Range"].startswith("bytes=0-") and left[0]:
                left[0] -= 1
                server.add(sets.pop(0), "bucket/set")
            return None
        server.fault = fault
        got = batches_or_words("s3://bucket/set", epochs=1, cache="cache")
        server.fault = None
        if times == 1:
            tap.ok(got == batches("plain1", epochs=1) and left == [0], "an index that changes while it is read is read again", str(got)[:300])
        else:
            tap.ok(isinstance(got, str) and "s3://bucket/set/index.ffx: was replaced while it was read" in got, "twice: a sentence", str(got)[:300])


def killed(server, times):
    """After a kill at any moment readers find one of the two sets; the same command continues."""
    wrong, codes = [], []
    for i in range(times):
        name = dice.choice(("plain", "split"))
        old, new = name + "0", "%s%d" % (name, dice.randint(1, 2))
        fill(server, old)
        watch = Watch(server, old, new)
        server.fault = lambda number, handler: ("stall", 0.01)
        for _ in range(dice.randint(1, 3)):
            process = subprocess.Popen([FFPACK, "push", new, "s3://bucket/set"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(dice.uniform(0.01, 0.35))
            process.kill()
            process.wait()
        time.sleep(0.05)
        server.fault = None
        codes.append(process.returncode)
        shutil.rmtree("cache", ignore_errors=True)
        seen = run(FFINSPECT, "s3://bucket/set", "--verify", env={**os.environ, "FFPACK_CACHE": "cache"})
        finished = push(new)
        if seen.returncode or finished.returncode or watch.wrong or below(server) != without_history(new) or server.parts:
            wrong.append((i, new, seen.stdout + seen.stderr, finished.stderr, watch.wrong))
    tap.ok(not wrong and codes.count(-9) > times / 4, "killed %d times (%d while it ran): one of the sets, whole" % (times, codes.count(-9)), wrong)


pack = ("--shard-size", "200K", "--stats", "compute")
make("plain", (items("a", 200, 1), *pack), (items("b", 150, 2),), (items("c", 30, 3),))
make("other", (items("d", 200, 4), *pack), ("b.npy",))
make("fork", ("a.npy", *pack), ("c.npy",))
numpy.save("y.npy", numpy.arange(200) % 3)
os.makedirs("labelled")
shutil.copy("a.npy", "labelled/x.npy")
shutil.copy("y.npy", "labelled/y.npy")
make("classes", ("labelled/x.npy", *pack), )
shutil.copytree("classes0", "classes1")
make("split", ("a.npy", *pack, "--split", "train=0.8,val=0.2"), ("b.npy",), ("c.npy",))
server = Server()
os.environ.update({name: value for name, value in server.environment(FFPACK_CACHE="cache").items() if name.startswith(("AWS_", "FFPACK_", "HOME"))})
if tap.SHORT:
    pushed(server)
    refused(server)
    replaced_while_opened(server)
    killed(server, 4)
if tap.LONG:
    read(server)
    killed(server, int(os.environ.get("FF_KILLS", "40")))
os.chdir("/")
shutil.rmtree(place)
tap.finish()
