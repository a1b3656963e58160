"""Golden sets of every released format version: the current readers read the same content, and the current
writer still writes the same bytes."""
# Needs: ffpack tests/dump_set tests/make_set
import io
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(tap.ROOT, "tests", "golden"))
import cases  # noqa: E402


def read(path):
    with open(path, "rb") as file:
        return file.read()


def read_with_ours(split, dump):
    done = tap.run([tap.program("dump_set"), split])
    if done.returncode:
        return done.stderr.decode()
    if done.stdout != dump:
        return "the dump differs"
    done = tap.run([tap.program("dump_set"), split, "--verify"])
    return done.stderr.decode() if done.returncode else None


def read_with_theirs(reader, split, dump):
    try:
        second = reader.Split(split)
        second.read_index(split)
    except reader.Wrong as wrong:
        return str(wrong)
    out = io.StringIO()
    second.dump(out)
    wanted = [json.loads(line) for line in dump.decode().splitlines()]
    return None if [json.loads(x) for x in out.getvalue().splitlines()] == wanted else "it differs"


def write_again(folder, name, scratch):
    arguments = read(os.path.join(folder, "arguments")).decode().split()
    title = "make_set writes the same bytes as " + name
    if "--compress" in arguments:
        written = read(os.path.join(folder, "zstd-version")).decode().strip()
        if written != cases.zstd_version():
            tap.skip(title, "written with zstd %s, here is %s" % (written, cases.zstd_version()))
            return
    target = os.path.join(scratch, name.replace("/", "-"))
    done = tap.run([tap.program("make_set"), target] + cases.version_of(name) + arguments)
    if done.returncode:
        tap.ok(False, title, done.stderr.decode())
        return
    golden = os.path.join(folder, "set")
    files = cases.files_of(golden)
    different = [f for f in files if f not in cases.files_of(target)
                 or read(os.path.join(golden, f)) != read(os.path.join(target, f))]
    tap.ok(not different and files == cases.files_of(target), title, "differ: %s" % different)


def merge(folder, name, scratch):
    """The golden parts become the golden set; make_set still writes the same parts."""
    count = cases.PARTS[name.split("/")[1]][0]
    parts = [os.path.join(folder, "part-%d" % (i + 1)) for i in range(count)]
    target = os.path.join(scratch, "merged-" + name.replace("/", "-"))
    done = tap.run([os.path.join(tap.BUILD, "ffpack"), "merge", target] + parts[::-1])
    golden = os.path.join(folder, "set")
    files = cases.files_of(golden)
    same = done.returncode == 0 and cases.files_of(target) == files and all(
        read(os.path.join(golden, f)) == read(os.path.join(target, f)) for f in files)
    tap.ok(same, "the parts of %s make its set" % name, done.stderr.decode())


def main():
    reader = tap.second_reader()
    scratch = tempfile.mkdtemp()
    try:
        for name in sorted(cases.CASES):
            folder = os.path.join(tap.ROOT, "tests", "golden", name)
            made = os.path.join(folder, "set")
            splits = cases.splits_of(made)
            tap.ok(splits, "golden %s is there" % name)
            for split in splits:
                at = os.path.join(made, split) if split != "." else made
                dump = read(os.path.join(folder, cases.dump_name(split)))
                problem = read_with_ours(at, dump)
                tap.ok(not problem, "golden %s %s is read as it was" % (name, split), problem)
                problem = read_with_theirs(reader, at, dump)
                tap.ok(not problem, "the second reader reads %s %s" % (name, split), problem)
            write_again(folder, name, scratch)
            if name.startswith("v1/") and name[3:] in cases.PARTS:
                merge(folder, name, scratch)
    finally:
        shutil.rmtree(scratch)
    tap.finish()


main()
