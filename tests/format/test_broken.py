"""Broken sets (tests/broken): every program answers with one message and the documented exit code, needs
little memory, and never crashes; both readers find each of them. The message is the one of
tests/broken/sentences.tsv, so that each set is refused for what is wrong with it, and as early."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

sys.dont_write_bytecode = True
BROKEN = os.path.join(tap.ROOT, "tests", "broken")


def judge(done, name, must_fail):
    """What is wrong with a program's end; None where nothing is."""
    text = done.stderr.decode(errors="replace")
    if done.returncode < 0 or "Sanitizer" in text or "runtime error" in text:
        return "%s crashed (%d): %s" % (name, done.returncode, text)
    if done.returncode == 0:
        return "%s accepts it" % name if must_fail else None
    # A shard that cannot be opened is the system's refusal; everything else is bad data.
    if done.returncode not in (65, 74):
        return "%s exits with %d: %s" % (name, done.returncode, text)
    if text.count("\n") != 1 or not text.endswith("\n") or "/broken/" not in text:
        return "%s does not report it in one message with the path: %s" % (name, text)
    return None


def told(done, folder):
    return done.stderr.decode(errors="replace").strip().replace("dump_set: ", "").replace(folder, "SET")


def check(reader, folder, sentences):
    inspect = os.path.join(tap.BUILD, "ffinspect")
    read = tap.run([tap.program("dump_set"), folder], True)
    verified = tap.run([tap.program("dump_set"), folder, "--verify"], True)
    problem = judge(read, "dump_set", False) or judge(verified, "verify", True)
    found = [told(read, folder), told(verified, folder)]
    if not problem and found != sentences:
        problem = "says %s, wanted %s" % (found, sentences)
    if not problem and os.path.exists(inspect):
        done = tap.run([inspect, folder, "--verify"], True)
        text = done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")
        if done.returncode not in (65, 74) or "Sanitizer" in text:
            problem = "ffinspect --verify exits with %d: %s" % (done.returncode, text)
        else:
            problem = judge(tap.run([inspect, folder], True), "ffinspect", False)
    if problem:
        return problem
    try:
        reader.Split(folder).read_index(folder)
        return "the second reader accepts it"
    except (reader.Wrong, reader.struct.error, reader.zstandard.ZstdError, OSError):
        return None


def main():
    reader = tap.second_reader()
    sys.path.insert(0, BROKEN)
    import make
    # A line each: the set, the message of reading it (empty where it can be read), the message of verifying
    # it.
    with open(os.path.join(BROKEN, "sentences.tsv"), encoding="utf-8") as lines:
        sentences = {name: told for name, *told in (line.rstrip("\n").split("\t") for line in lines)}
    for name in sorted(make.CASES):
        problem = check(reader, os.path.join(BROKEN, name), sentences.pop(name, None))
        tap.ok(not problem, "broken set %s is refused" % name, problem)
    tap.ok(not sentences, "tests/broken/sentences.tsv names no other set", sentences)
    # The committed files are those that the script derives (except for zstd's own choices).
    different = []
    for name, files in make.build().items():
        if name.startswith("frame-"):
            continue
        for file_name, data in files.items():
            path = os.path.join(BROKEN, name, file_name)
            if not os.path.exists(path) or open(path, "rb").read() != data:
                different.append(path)
    tap.ok(not different, "tests/broken holds what tests/broken/make.py derives",
           "\n".join(different))
    tap.finish()


main()
