"""The second reader (tests/second_reader.py) and ffpack's own agree on everything in a set, on every byte of
the index, and on broken sets."""
import io
import json
import os
import random
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tap  # noqa: E402

CASES = [
    "--count 20",
    "--dtype f32 --layout hwc --channels 1 --height 5 --width 3",
    "--dtype bf16 --channels 5 --height 3 --width 4 --statistics",
    "--dtype u8 --channels 2 --layout hwc --statistics --alignment 4096",
    "--dtype u16 --channels 4 --height 9 --width 2 --noise",
    "--specials --noise --height 4 --width 4",
    "--fields '' --height 2 --width 2",
    "--fields all --odd-names --odd-keys --unlabeled --height 3 --width 3 --count 25",
    "--fields label,wide-tags,mix --variable --height 20 --width 11 --count 33",
    "--variable --alignment 4096 --shard-size 20K --count 13 --fields all",
    "--count 50 --shard-size 4K --height 8 --width 8 --shuffle 5",
    "--count 50 --shard-size 4K --height 8 --width 8 --shuffle 5 --skip-every 3",
    "--count 30 --shard-size 4K --height 8 --width 8 --skip-range 0:15",
    "--count 30 --shard-size 4K --height 8 --width 8 --skip-range 12:30 --compress 3",
    "--count 3000 --height 1 --width 1 --channels 1 --shard-size 8K --shuffle 1",
    "--compress 3 --filter none --fields all --odd-names",
    "--compress 1 --filter shuffle --dtype f32 --layout hwc --statistics --noise",
    "--compress 6 --filter table --statistics",
    "--compress 1 --filter table --statistics --dtype f32 --layout hwc --variable --fields all",
    "--compress 1 --filter table --dtype u8 --channels 1 --height 33 --width 7",
    "--compress 1 --filter table --dtype bf16 --specials --shard-size 10K --shuffle 2",
    "--compress 19 --filter delta --dtype u8 --variable --fields soft,mix",
    "--compress 1 --filter delta --dtype u16 --layout hwc --channels 3",
    "--compress 1 --height 150 --width 150 --channels 3 --count 4",
    "--compress 1 --count 2000 --height 2 --width 2 --shard-size 16K --skip-every 2",
    "--splits train,test --count 12",
]


def splits_of(folder):
    for at, _, files in sorted(os.walk(folder)):
        if "index.ffx" in files:
            yield at


def compare(reader, split):
    """What is wrong; None where both readers agree."""
    ours = tap.run([tap.program("dump_set"), split])
    if ours.returncode:
        return "dump_set: %s" % ours.stderr.decode()
    verified = tap.run([tap.program("dump_set"), split, "--verify"])
    if verified.returncode:
        return "--verify: %s" % verified.stderr.decode()
    theirs = io.StringIO()
    second = reader.Split(split)
    second.read_index(split)
    second.dump(theirs)
    pairs = list(zip(ours.stdout.decode().splitlines(), theirs.getvalue().splitlines()))
    for a, b in pairs:
        if json.loads(a) != json.loads(b):
            return "%s\nthe second reader: %s" % (a, b)
    if len(ours.stdout.splitlines()) != len(pairs):
        return "different number of lines"
    return None


def check_npy(reader, split, folder):
    inspect = os.path.join(tap.BUILD, "ffinspect")
    if not os.path.exists(inspect):
        tap.skip("ffinspect --npy", "ffinspect is not built")
        return
    path = os.path.join(folder, "samples.npy")
    done = tap.run([inspect, split, "--npy", path])
    if not tap.ok(done.returncode == 0, "ffinspect --npy succeeds", done.stderr.decode()):
        return
    array, wanted = reader.numpy.load(path), reader.Split(split).array()
    tap.ok(array.dtype == wanted.dtype and array.shape == wanted.shape
           and array.tobytes() == wanted.tobytes(), "ffinspect --npy gives the second reader's tensors",
           "%s %s, wanted %s %s" % (array.dtype, array.shape, wanted.dtype, wanted.shape))


def check_flips(reader, folder, arguments):
    """Each of some random bit flips makes the second reader refuse the set."""
    tap.run([tap.program("make_set"), folder] + arguments.split())
    rng, missed = random.Random(7), []
    files = sorted(os.listdir(folder))
    for n in range(400):
        path = os.path.join(folder, rng.choice(files))
        with open(path, "r+b") as file:
            data = bytearray(file.read())
            at = rng.randrange(len(data))
            if n % 2:  # not only the headers' zeros
                at = 4096 + at % (len(data) - 4096)
            data[at] ^= 1 << rng.randrange(8)
            changed = data[at]
            file.seek(at)
            kept = file.read(1)
            file.seek(at)
            file.write(bytes([changed]))
        try:
            reader.Split(folder).read_index(folder)
            missed.append("%s byte %d" % (path, at))
        except (reader.Wrong, reader.struct.error, reader.zstandard.ZstdError):
            pass
        with open(path, "r+b") as file:
            file.seek(at)
            file.write(kept)
    reader.Split(folder).read_index(folder)
    tap.ok(not missed, "the second reader finds 400 random bit flips (%s)" % arguments,
           "\n".join(missed))


def main():
    reader = tap.second_reader()
    folder = tempfile.mkdtemp()
    try:
        for number, case in enumerate(CASES):
            target = os.path.join(folder, "set%d" % number)
            arguments = [a.strip("'") for a in case.split()]
            made = tap.run([tap.program("make_set"), target] + arguments)
            problem = None if made.returncode == 0 else made.stderr.decode()
            for split in splits_of(target) if not problem else ():
                try:
                    problem = problem or compare(reader, split)
                except reader.Wrong as wrong:
                    problem = "second reader: %s" % wrong
            tap.ok(not problem, "both readers agree: " + case, problem)
        for number in (1, 2, 3, 16):
            check_npy(reader, os.path.join(folder, "set%d" % number), folder)
        check_flips(reader, os.path.join(folder, "raw"), "--height 4 --width 4 --count 5 --fields all")
        check_flips(reader, os.path.join(folder, "zstd"),
                    "--height 4 --width 4 --count 5 --compress 3 --filter table --shard-size 200")
    finally:
        shutil.rmtree(folder)
    tap.finish()


main()
