#!/usr/bin/python3
"""ffload.pack is ffpack with its options: the same bytes, its sentences as exceptions and warnings, Ctrl-C, progress
in terminals, notebooks and functions; python -m ffload is the programs themselves. Prints TAP."""
import errno
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import types
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402
import package  # noqa: E402
import ffload  # noqa: E402
from ffload import progress, programs  # noqa: E402

work = tempfile.TemporaryDirectory()
os.chdir(work.name)
PATH = {"PATH": os.environ["PATH"], "PYTHONPATH": package.FOLDER, "LC_ALL": "C.UTF-8"}
for kind in ("idx", "folder", "cifar10"):
    subprocess.run([sys.executable, os.path.join(tap.ROOT, "tests", "cli", "make_inputs.py"), kind, "in_" + kind, "12"], check=True)
FFPACK = os.path.join(tap.BUILD, "ffpack")
SIZED = {"resize": (32, 30), "center_crop": 28, "mean": (0.5, 0.4, 0.5), "std": [0.25, 0.25, 0.3]}
SIZED_TEXT = ["--resize", "32x30", "--center-crop", "28", "--mean", "0.5,0.4,0.5", "--std", "0.25,0.25,0.3"]


def raised(kind, function, *pieces):
    """'' where the function raises exactly this kind, with one sentence that has all the pieces."""
    try:
        return "it returned %r" % (function(),)
    except BaseException as error:
        said = str(error)
        good = type(error) is kind and said and "\n" not in said and all(piece in said for piece in pieces)
        return "" if good else "%s: %s" % (type(error).__name__, said)


def same(name, out, *arguments):
    subprocess.run([FFPACK, *arguments, "-o", out + ".wanted"], check=True, capture_output=True)
    ours, wanted = tap.files_of(out), tap.files_of(out + ".wanted")
    tap.ok(ours == wanted and ours, name, sorted(ours) + sorted(wanted))


def python(text, **more):
    return subprocess.Popen([sys.executable, "-c", text], env=PATH, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def child_of(process):
    """The process id of its ffpack."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as file:
            for child in map(int, file.read().split()):
                if open("/proc/%d/comm" % child).read() == "ffpack\n":
                    return child
        time.sleep(0.01)
    raise RuntimeError("no ffpack was started")


def ended(number, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if open("/proc/%d/stat" % number).read().split()[2] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


# ---- options and the summary
summary = ffload.pack("in_folder", "folder", dtype="f32", shuffle=0, jobs=2, exif=True, fast_decode=False, progress=False, **SIZED)
tap.ok(summary["event"] == "packed" and [one["samples"] for one in summary["splits"]] and summary["output"] == "folder",
    "the summary is ffpack's", summary)
same("the same bytes as ffpack's", "folder", "in_folder", "--dtype", "f32", "--shuffle", "0", "--exif", *SIZED_TEXT)
names = list("abcdefghij")
ffload.pack(os.path.abspath("in_idx"), "idx", classes=names, dtype="u8", progress=False)
open("names.txt", "w").write("".join(name + "\n" for name in names))
same("classes as a list", "idx", os.path.abspath("in_idx"), "--dtype", "u8", "--classes", "names.txt")
plan = ffload.pack("in_cifar10", None, dry_run=True, progress=False)
tap.ok(plan["event"] == "would_pack" and plan["splits"][0]["samples"] == 60, "dry_run needs no OUT", plan)
os.mkdir("-o")
os.rename("in_cifar10", "-o/-x")
os.chdir("-o")
ffload.pack("-x", "../dashes", progress=False)
os.chdir("..")
tap.ok(os.path.isdir("dashes/train"), "a source whose name begins with a dash")
os.rename("-o/-x", "in_cifar10")


class Number:
    """As torch's dtypes print."""
    def __str__(self):
        return "torch.float16"


ffload.pack("in_idx", "half", dtype=Number(), progress=False)
same("dtype as torch's", "half", "in_idx", "--dtype", "f16")

# ---- errors
for name, kind, pieces, options in [
        ("an unknown option", ffload.UsageError, ["unknown option resiz; did you mean resize?"], {"resiz": 32}),
        ("a wrong value", ffload.UsageError, ["jobs: 'many'"], {"jobs": "many"}),
        ("an option that is ffload's own", ffload.UsageError, ["output"], {"output": "x"}),
        ("a value that is not an option's", ffload.UsageError, ["resize"], {"resize": object()}),
        ("a progress that is none", ffload.UsageError, ["progress", "'yes'"], {"progress": "yes"})]:
    wrong = raised(kind, lambda: ffload.pack("in_folder", "bad", **{"progress": False, **options}), *pieces)
    tap.ok(not wrong and not os.path.exists("bad"), name, wrong)
tap.ok(not raised(ffload.UsageError, lambda: ffload.pack("in_folder", "folder", progress=False, resize=32), "folder", "exists"),
    "an OUT that exists")
subprocess.run(["cp", "-r", "in_folder", "broken"], check=True)
broken = sorted(name for name in os.listdir("broken/b") if name.endswith(".JPG"))[0]
os.truncate(os.path.join("broken/b", broken), 300)
wrong = raised(ffload.BadData, lambda: ffload.pack("broken", "bad", progress=False, **SIZED), broken)
tap.ok(not wrong and not os.path.exists("bad"), "a broken image is BadData, with its name", wrong)
for name, kind, number, path, call in [
        ("a source that is not there", FileNotFoundError, errno.ENOENT, "nowhere", lambda: ffload.pack("nowhere", "bad", progress=False)),
        ("an option's file", FileNotFoundError, errno.ENOENT, "no: file", lambda: ffload.pack("in_folder", "bad", labels="no: file", progress=False, **SIZED)),
        ("an option's folder", FileNotFoundError, errno.ENOENT, "/no/run", lambda: ffload.pack("in_folder", "bad", stats_from="/no/run", progress=False, resize=8, center_crop=8)),
        ("an OUT that cannot be", NotADirectoryError, errno.ENOTDIR, os.path.abspath("names.txt/out.partial"), lambda: ffload.pack("in_folder", os.path.abspath("names.txt/out"), progress=False, **SIZED))]:
    try:
        call()
        wrong = "nothing was raised"
    except OSError as error:
        wrong = (type(error), error.errno, error.filename) != (kind, number, path) and repr((error, error.filename))
    tap.ok(not wrong, "%s is a %s with errno and filename" % (name, kind.__name__), wrong)
for name, pieces, options in [
        ("an option's word", ["on_error: 'stop' is not one of"], {"on_error": "stop"}), ("two that belong together", ["mean is set without std"], {"std": None}),
        ("options that are missing", ["need resize=HxW, resize=N with center_crop=M, or max_side=N"], {"resize": None, "center_crop": None}),
        ("another program's option", ["unknown option num_workers: here it is jobs=N"], {"num_workers": 3})]:
    wrong = raised(ffload.UsageError, lambda: ffload.pack("in_folder", "bad", progress=False, **{**SIZED, **options}), *pieces)
    tap.ok(not wrong, "errors name Python's words: " + name, wrong)
wrong = raised(ffload.BadData, lambda: ffload.pack("broken", "bad", progress=False, **SIZED), 'on_error="skip"')
tap.ok(not wrong, "and a broken image's", wrong)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    left = ffload.pack("broken", "left", on_error="skip", progress=False, **SIZED)
tap.ok(len(seen) == 1 and broken in str(seen[0].message) and "left out" in str(seen[0].message) and left["skipped"],
    "an image that is left out is a warning", [str(one.message) for one in seen])
find, programs.find = programs.find, lambda name: "/nowhere/ffpack"
tap.ok(not raised(FileNotFoundError, lambda: ffload.pack("in_idx", "bad"), "/nowhere/ffpack"), "a program that is not there")
programs.find = find
script = os.path.abspath("killed")
open(script, "w").write("#!/bin/sh\nkill -9 $$\n")
os.chmod(script, 0o755)
programs.find = lambda name: script
tap.ok(not raised(ffload.Error, lambda: ffload.pack("in_idx", "bad"), "SIGKILL"), "a packer that is killed is an Error")
programs.find = find

# ---- progress
calls = []
ffload.pack("in_cifar10", "called", progress=lambda done, total: calls.append((done, total)))
tap.ok(calls[0] == (0, 60) and calls[-1] == (12, 12) and {total for _, total in calls} == {60, 12},
    "a function is called with done and total of each pass, to the last", calls)


def stop(done, total):
    raise LookupError("enough")


wrong = raised(LookupError, lambda: ffload.pack("in_cifar10", "stopped", progress=stop), "enough")
tap.ok(not wrong and not os.path.exists("stopped"), "its exception stops the packing", wrong)

# Long enough for lines: slow compression.
values = os.path.abspath("slow.npy")
SLOW = "dict(compress='zstd:19', jobs=1, shard_size='1M', array_layout='chw')"
subprocess.run([sys.executable, "-c", "import numpy; numpy.save('slow.npy', numpy.random.RandomState(0).randint(0, 99, (9000, 3, 32, 32), 'u1'))"], check=True)
PACK = "import ffload; ffload.pack('slow.npy', %r, mean=(0.2,)*3, std=(0.1,)*3, **" + SLOW + "%s)"


def bar_of(text, fake="", terminal=True, term="xterm", columns=100):
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([sys.executable, "-c", fake + text], env={**PATH, "TERM": term},
                               stderr=theirs if terminal else subprocess.PIPE)
    os.close(theirs)
    shown = b""
    while True:
        try:
            data = os.read(ours if terminal else process.stderr.fileno(), 65536)
        except OSError:
            data = b""
        if not data:
            break
        shown += data
    os.close(ours)
    process.wait()
    return process.returncode, shown.decode()


def is_bar(code, shown):
    lines = shown.split("\r")
    return code == 0 and len(lines) > 6 and "\n" not in shown and not lines[-1] and not lines[-2].strip() and all(
        re.fullmatch(r"packing: +\d+%\|#* *\| \d+/9000 \[00:\d\d<(\?|\d\d:\d\d), [\d.]+ items/s\] *", line) for line in lines[1:-2])


NOTEBOOK = ("import sys, types; sys.modules['IPython'] = types.SimpleNamespace("
            "get_ipython=lambda: types.SimpleNamespace(kernel=1))\n")
code, shown = bar_of(PACK % ("bar", ""))
tap.ok(is_bar(code, shown), "a bar in a terminal, which goes at the end", repr(shown[-600:]))
code, shown = bar_of(PACK % ("bar_narrow", ""), columns=30)
tap.ok(code == 0 and 20 < max(map(len, shown.split("\r"))) < 30, "no wider than the terminal", repr(shown[-300:]))
code, shown = bar_of(PACK % ("bar_notebook", ""), NOTEBOOK, terminal=False)
tap.ok(is_bar(code, shown) and "\x1b" not in shown, "a bar in a notebook", repr(shown[-600:]))
code, shown = bar_of(PACK % ("bar_true", ", progress=True"), terminal=False)
tap.ok(is_bar(code, shown), "a bar where it is asked for", repr(shown[-600:]))
for name, options in [("into a file", dict(terminal=False)), ("in a terminal that cannot rewrite", dict(term="dumb"))]:
    code, shown = bar_of(PACK % ("file" + name[:4].strip(), ""), **options)
    tap.ok(code == 0 and shown == "", "%s nothing in the first half minute" % name, repr(shown))
line = progress.Line(rewrites=False)
line.told, line.what, line.began = time.monotonic() - 31, "packing", time.monotonic() - 31
written, kept, sys.stderr = [], sys.stderr, types.SimpleNamespace(write=lambda text: written.append(text), flush=lambda: None)
for _ in range(2):
    line.event({"event": "progress", "what": "packing", "unit": "items", "done": 31, "total": None})
sys.stderr = kept
tap.ok(written == ["packing: 31 [00:31, 1.00 items/s]\n"], "then a line", written)
code, shown = bar_of(PACK % ("bar_false", ", progress=False"))
tap.ok(code == 0 and shown == "", "none where it is not wanted", repr(shown))

# ---- threads, signals
ffload.pack("slow.npy", "threads", mean=(0.2,) * 3, std=(0.1,) * 3, progress=False, **eval(SLOW))
# An ffpack that says nothing, and ends well only when another thread of Python has seen it.
open("waiting", "w").write("""#!/bin/sh
: >waiting.began
for _ in $(seq 600); do [ -e waiting.seen ] && exit 0; sleep 0.1; done
exit 1
""")
os.chmod("waiting", 0o755)


def see():
    while not os.path.exists("waiting.began"):
        time.sleep(0.001)
    open("waiting.seen", "w").close()


find, programs.find = programs.find, lambda name: "./waiting"
thread = threading.Thread(target=see, daemon=True)
thread.start()
try:
    said = ffload.pack("slow.npy", "nothing", progress=False)
except ffload.Error as error:
    said = error
programs.find = find
tap.ok(said == {}, "other threads continue", said)

ANSWERS = "try:\n %s\nexcept KeyboardInterrupt: print('answered', flush=True)"


def packing(out, text):
    """Python and its ffpack, which has written its first shard."""
    process = python(text % (PACK % (out, "")), start_new_session=True)
    child = child_of(process)
    while not os.path.isdir(out + ".partial") or not any(name.endswith(".ffs") for name in os.listdir(out + ".partial")):
        time.sleep(0.005)
        if process.poll() is not None:
            raise RuntimeError("it ended before: %s" % (process.communicate(),))
    return process, child


process, child = packing("signalled", ANSWERS)
os.kill(process.pid, signal.SIGINT)
said = process.communicate(timeout=120)
tap.ok(said[0] == b"answered\n" and ended(child, 0.1), "Ctrl-C is a KeyboardInterrupt, and ends ffpack", said)
shards = len([name for name in os.listdir("signalled.partial") if name.endswith(".ffs")]) if os.path.isdir("signalled.partial") else 0
tap.ok(not os.path.exists("signalled") and shards > 0, "what is whole is kept", shards)
again = ffload.pack("slow.npy", "signalled", mean=(0.2,) * 3, std=(0.1,) * 3, progress=False, **eval(SLOW))
ours, wanted = tap.files_of("signalled"), tap.files_of("threads")
tap.ok(again["splits"][0]["continued"] > 0 and ours == wanted, "and the same call continues, to the same bytes", again["splits"][0])

process, child = packing("killed_out", "%s")
process.kill()
process.communicate()
tap.ok(ended(child, 60) and not os.path.exists("killed_out"), "where Python is killed, ffpack ends, too")

# A second signal would end ffpack at once: it gets one, from Python, also where a terminal sends it to all of a group.
open("counting", "w").write("""#!%s
import os, signal, time
signal.signal(signal.SIGINT, lambda *_: open("counted", "a").write("INT "))
open("counting.began", "w").close()
while not os.path.exists("counted"):
    time.sleep(0.01)
time.sleep(0.5)
os._exit(130)
""" % sys.executable)
os.chmod("counting", 0o755)
for name, send in [("in a terminal", os.killpg), ("in a notebook", os.kill)]:
    process = python(ANSWERS % ("import ffload.programs as p; p.find = lambda name: './counting'; " + PACK % ("group", "")), start_new_session=True)
    while not os.path.exists("counting.began") and process.poll() is None:
        time.sleep(0.01)
    send(process.pid, signal.SIGINT)
    said = process.communicate(timeout=120)[0]
    counted = open("counted").read() if os.path.exists("counted") else ""
    tap.ok(said == b"answered\n" and counted == "INT ", "Ctrl-C %s: ffpack gets one signal" % name, [said, counted])
    os.remove("counting.began")
    os.remove("counted")

process, child = packing("stopped2", "try:\n %s\nexcept ffload.Error as error: print(type(error).__name__, error)")
os.kill(child, signal.SIGTERM)
said = process.communicate(timeout=120)[0].decode()
tap.ok(said.startswith("Error stopped by SIGTERM; ") and said.endswith(", and the same call continues\n"),
    "a packer that is stopped is an Error", said)


# ---- the programs
def module(*arguments, **more):
    return subprocess.run([sys.executable, "-m", "ffload", *arguments], env=PATH, capture_output=True, text=True, **more)


for name in programs.NAMES:
    wanted = subprocess.run([os.path.join(tap.BUILD, name), "--version"], capture_output=True, text=True)
    done = module(name, "--version")
    tap.ok((done.stdout, done.returncode) == (wanted.stdout, 0), "python -m ffload %s" % name, done)
done = module("ffpack", "--resiz", "3")
tap.ok(done.returncode == 2 and "did you mean --resize" in done.stderr, "its exit code and its words", done)
done = module("ffpak")
tap.ok(done.returncode == 2 and "'ffpak' is not a program" in done.stderr and done.stderr.count("\n") == 1, "a name that is not a program", done)
done = module()
tap.ok(done.returncode == 2 and "no program is named" in done.stderr, "no name", done)
tap.ok(module("--help").returncode == 0, "--help")
SHOW = "import ffload.programs as p; p.find = lambda name: '/bin/cat'; p.run('cat', ['/proc/self/%s'])"
status = python(SHOW % "status").communicate()[0].decode()
ignored = int(re.search(r"SigIgn:\s*([0-9a-f]+)", status).group(1), 16)
tap.ok(not ignored & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1), "signals that Python ignores are not ignored", hex(ignored))
for name in ("nvidia/cudnn/lib", "nvidia/cu13/lib", "other"):
    os.makedirs("site/" + name)
for given, wanted in [(None, ["site/nvidia/cu13/lib", "site/nvidia/cudnn/lib"]), ("/mine", ["/mine", "site/nvidia/cu13/lib", "site/nvidia/cudnn/lib"])]:
    env = {**PATH, "PYTHONPATH": os.path.abspath("site") + ":" + PATH["PYTHONPATH"], **({"FFPACK_CUDA_PATH": given} if given else {})}
    found = subprocess.run([sys.executable, "-c", SHOW % "environ"], env=env, capture_output=True, text=True).stdout
    found = dict(one.split("=", 1) for one in found.split("\0") if one).get("FFPACK_CUDA_PATH", "").split(":")
    wanted = [one if one[0] == "/" else os.path.abspath(one) for one in wanted]
    tap.ok(found[:len(wanted)] == wanted, "a program is told where NVIDIA's libraries of the environment are", found)
os.chdir("/")
package.finish()
