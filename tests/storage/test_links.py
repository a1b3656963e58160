#!/usr/bin/python3
"""Sets behind slow and bad links: nginx in one network namespace, the loader and fftrain in another, joined by a line whose rate the
kernel limits (tbf) and that delays, loses, repeats and overtakes packets. The link's rate is reached; the batches are those of a folder
through losses, outages of the link and of the name server; an outage that lasts ends with a sentence, or with a checkpoint. Prints TAP."""
# Needs: ffpack fftrain python tests/slow_link
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import slow_network  # noqa: E402
from remote_sets import FFTRAIN, batches, losses, make_set, tap  # noqa: E402
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:" + os.environ.get("PATH", ""))
LACKS = "needs root, ip, tc and /dev/net/tun" if slow_network.missing() or not os.path.exists("/dev/net/tun") else None if NGINX else "there is no nginx: package nginx-light"
if tap.SANITIZE or LACKS:
    tap.skip("slow and bad links", LACKS or "times of a sanitized build")
    tap.finish()
place = tempfile.mkdtemp()
os.chmod(place, 0o755)
os.chdir(place)
PORT = 8080

# A loader, in the namespace of the reader: a line for each batch, then all of them with the seconds.
LOADER = """
import json, os, sys, time, zlib
sys.path[:0] = [sys.argv[1]]
from remote_sets import loader_of, numpy
try:
    began, found, bytes_ = time.monotonic(), [], 0
    for batch in loader_of(sys.argv[2], **json.loads(sys.argv[3])):
        images = numpy.asarray(batch[0])
        found.append(([int(number) for number in batch[-1]], zlib.crc32(images.tobytes())))
        bytes_ += images.nbytes
        print("batch", flush=True)
    print(json.dumps({"batches": found, "bytes": bytes_, "seconds": time.monotonic() - began}))
except (OSError, RuntimeError, ValueError) as error:
    print(json.dumps({"said": "%s: %s" % (type(error).__name__, error), "seconds": time.monotonic() - began}))
"""

# A name server: silent, servfail, nxdomain or answer, as a file says; writes a letter for each question.
NAMES = """
import socket, sys
port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
port.bind((sys.argv[1], 53))
while True:
    asked, whom = port.recvfrom(4096)
    mode = open("names").read()
    with open("asked", "a") as file:
        file.write(mode[0])
    if mode == "silent":
        continue
    end = 12
    while asked[end]:
        end += 1 + asked[end]
    question, kind = asked[12:end + 5], asked[end + 1:end + 3]
    here = mode == "answer" and kind == bytes([0, 1])
    code = {"servfail": 2, "nxdomain": 3}.get(mode, 0)
    head = asked[:2] + bytes([0x81, 0x80 + code, 0, 1, 0, here, 0, 0, 0, 0])
    found = bytes([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]) + socket.inet_aton(sys.argv[1]) if here else b""
    port.sendto(head + question + found, whom)
"""


class Reader:
    """A loader in the namespace of the reader."""

    def __init__(self, link, data, host=None, **options):
        shutil.rmtree("cache", ignore_errors=True)
        url = "http://%s:%d/sets/%s/train" % (host or link.ADDRESS, PORT, data)
        options = {"epochs": 1, "order": "sequential", "cache": "cache", **options}
        self.process = subprocess.Popen(link.inside(1, sys.executable, "-c", LOADER, os.path.dirname(os.path.abspath(__file__)), url, json.dumps(options)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def await_batches(self, count):
        for _ in range(count):
            if self.process.stdout.readline() != "batch\n":
                return

    def result(self):
        try:
            out, said = self.process.communicate(timeout=200)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return {"said": "it hangs", "seconds": 200}
        lines = [line for line in out.splitlines() if line != "batch"]
        found = json.loads(lines[-1]) if lines else {"said": said, "seconds": 0}
        if "batches" in found:
            found["batches"] = [tuple(pair) for pair in found["batches"]]
        return found


def serve(link, lasting=True):
    """nginx, whose connections serve one request each if they do not last."""
    with open("nginx.conf", "w") as file:
        file.write("daemon off; master_process off; pid nginx.pid; error_log nginx.log; events { worker_connections 512; } http { access_log off; keepalive_timeout %d; "
                   "server { listen %s:%d; root %s; } }\n" % (60 if lasting else 0, link.ADDRESS, PORT, place))
    server = subprocess.Popen(link.inside(0, NGINX, "-p", place, "-c", os.path.join(place, "nginx.conf")), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        if not subprocess.run(link.inside(1, "curl", "-s", "-o", "/dev/null", "http://%s:%d/" % (link.ADDRESS, PORT)), check=False).returncode:
            return server
        time.sleep(0.1)
    raise RuntimeError("nginx does not start")


def curl(link, data):
    """The seconds in which curl fetches the shards, eight at a time."""
    words = []
    for name in sorted(os.listdir("sets/%s/train" % data)):
        words += ["-o", "/dev/null", "http://%s:%d/sets/%s/train/%s" % (link.ADDRESS, PORT, data, name)]
    began = time.monotonic()
    subprocess.run(link.inside(1, "curl", "-s", "-Z", "--no-progress-meter", "--parallel-max", "8", *words), check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def rate(link):
    """By turns with curl: what disturbs a round disturbs both, or is not in the best round."""
    wanted = batches("sets/large/train", epochs=1, order="sequential", batch_size=64)
    for mbit, delay_ms in ((200, 20), (60, 5)):
        link.set(mbit, delay_ms)
        ratios, figures = [], []
        for _ in range(3):
            plain, found = curl(link, "large"), Reader(link, "large", batch_size=64).result()
            if found.get("batches") != wanted:
                figures.append(str(found)[:300])
                break
            ratios.append(plain / found["seconds"])
            figures.append("%.0f of %d Mbit/s" % (found["bytes"] * 8e-6 / found["seconds"], mbit))
        tap.ok(len(ratios) == 3 and max(ratios) >= 0.9, "%d Mbit/s and %d ms each way: at the rate of curl (%s): %s" % (mbit, delay_ms, ", ".join("%.2f" % ratio for ratio in ratios), ", ".join(figures)), figures)


def bad(link, expected):
    for name, line in (("2 % of the packets are lost", {"lost": 0.02}), ("5 % of the packets overtake", {"overtaking": 0.05}), ("5 % of the packets come twice", {"repeated": 0.05}),
                       ("all of these, and slow", {"lost": 0.01, "overtaking": 0.02, "repeated": 0.02, "mbit": 100})):
        link.set(delay_ms=10, **line)
        found = Reader(link, "small").result()
        tap.ok(found.get("batches") == expected, "%s: the batches of a folder, in %.1f s" % (name, found["seconds"]), str(found)[:300])


def outages(link, expected):
    """The link is down for some seconds, on either side, and its packets are lost for some seconds."""
    for name, side in (("the server's side", 0), ("the reader's side", 1), ("all packets are lost", None)):
        line = {"mbit": 60, "delay_ms": 5}
        link.set(**line)
        reader = Reader(link, "small", memory="2M", prefetch=1)
        reader.await_batches(5)
        if side is None:
            link.set(lost=1, **line)
        else:
            link.down(side)
        time.sleep(5)
        if side is None:
            link.set(**line)
        else:
            link.up(side)
        found = reader.result()
        tap.ok(found.get("batches") == expected and found["seconds"] >= 5, "an outage of 5 s, %s: the batches of a folder, in %.1f s" % (name, found["seconds"]), str(found)[:300])
    link.set(mbit=60)
    reader = Reader(link, "small", memory="2M", prefetch=1, storage_timeout=4)
    reader.await_batches(5)
    link.down(0)
    found = reader.result()
    link.up(0)
    tap.ok(re.match("OSError: http://.*/sets/small/train", found.get("said", "")) and "\n" not in found["said"] and 4 <= found["seconds"] < 40, "an outage that lasts: a sentence with the URL, in %.1f s" % found["seconds"], str(found)[:300])


def lost(link):
    """fftrain waits for --storage-timeout, saves a checkpoint, ends with 74, and resumes to the same losses."""
    order, url = ["--order", "sequential", "--memory", "2M"], "http://%s:%d/sets/small" % (link.ADDRESS, PORT)
    link.set(mbit=40)
    expected = losses("sets/small", *order, "--epochs", 2)
    shutil.rmtree("cache", ignore_errors=True)
    train = [FFTRAIN, "--data", url, "--model", "smallnet", "--batch", 32, "--seed", 1, "--val", "none", "--quiet", "--threads", 1, *order, "--epochs", 2, "-o", "run", "--log-every", 1,
             "--cache", "cache", "--cache-size", "12M", "--storage-timeout", 3, "--log-json", "far.jsonl"]
    process = subprocess.Popen(link.inside(1, *train), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for _ in range(3000):
        time.sleep(0.02)
        if process.poll() is not None or os.path.exists("far.jsonl") and '"event":"step"' in open("far.jsonl").read().replace('": ', '":'):
            break
    began = time.monotonic()
    link.down(0)
    said = process.communicate(timeout=120)[1]
    seconds = time.monotonic() - began
    link.up(0)
    kept = re.search(r"; what was trained is in (run/checkpoints/step-[0-9]+)$", said, re.M)
    tap.ok(process.returncode == 74 and kept and url in said and 3 <= seconds < 60, "fftrain: a link that is down for long: a checkpoint and 74, in %.1f s" % seconds, (process.returncode, said))
    done = subprocess.run(link.inside(1, FFTRAIN, "--resume", "run", "--storage-timeout", 60, "--quiet", "--log-json", "far.jsonl"), capture_output=True, text=True, timeout=300)
    with open("far.jsonl") as file:
        got = [event["train_loss"] for event in map(json.loads, file) if event["event"] == "epoch"]
    tap.ok(done.returncode == 0 and got == expected, "resumed to the same losses", (done.returncode, done.stderr, got, expected))


def say(mode):
    with open("names.new", "w") as file:
        file.write(mode)
    os.replace("names.new", "names")


def names(link, expected):
    """The name server is gone for some seconds, at the start and while a run reads; or for good."""
    folder = "/etc/netns/" + link.names[1]
    os.makedirs(folder)
    with open(folder + "/resolv.conf", "w") as file:
        file.write("nameserver %s\noptions timeout:1 attempts:1\n" % link.ADDRESS)
    say("answer")
    server = subprocess.Popen(link.inside(0, sys.executable, "-c", NAMES, link.ADDRESS))
    try:
        for mode in ("silent", "servfail", "nxdomain"):
            say(mode)
            open("asked", "w").close()
            back = threading.Timer(4, say, ["answer"])
            back.start()
            found = Reader(link, "small", host="sets.example").result()
            back.join()
            asked = open("asked").read()
            tap.ok(found.get("batches") == expected and asked[0] == mode[0] and "a" in asked, "a name server that is %s for 4 s: the batches of a folder, in %.1f s" % (mode, found["seconds"]), (asked, str(found)[:300]))
        say("silent")
        for limit, most in ((4, 20), (300, 40)):
            found = Reader(link, "small", host="sets.example", storage_timeout=limit).result()
            tap.ok(found.get("said", "").startswith("OSError: http://sets.example:%d/sets/small/train" % PORT) and "\n" not in found["said"] and min(limit, 15) <= found["seconds"] < most,
                   "without a name server, a limit of %d s: a sentence in %.1f s: %s" % (limit, found["seconds"], found.get("said")), str(found)[:300])
        # Each connection asks for the name, or takes it from a minute before: new ones ask.
        say("answer")
        open("asked", "w").close()
        link.set(mbit=20)
        reader = Reader(link, "small", host="sets.example", memory="2M", prefetch=1)
        while not os.path.getsize("asked"):
            time.sleep(0.002)
        say("silent")
        time.sleep(6)
        say("answer")
        found = reader.result()
        asked = open("asked").read()
        tap.ok(found.get("batches") == expected and "s" in asked, "a name server that is silent while a run reads (%s): the batches of a folder" % asked, str(found)[:300])
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)


make_set("large", 2400, 64, "--shard-size", "12M")
make_set("small", 400, 64, "--shard-size", "3M")
with slow_network.Link() as link:
    server = serve(link)
    try:
        expected = batches("sets/small/train", epochs=1, order="sequential")
        rate(link)
        bad(link, expected)
        outages(link, expected)
        lost(link)
        link.set()
        names(link, expected)
    finally:
        server.kill()
        server.wait()
os.chdir("/")
shutil.rmtree(place)
tap.finish()
