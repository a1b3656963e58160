"""The golden sets of every format version and the arguments that make_set wrote them with. Golden
files never change: a case may be added here (`cases.py` writes what is missing), none edited."""
import ctypes
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SMALL = "--height 3 --width 4 --count 6 "
V0 = {
    "f16-chw": SMALL + "--statistics",
    "f32-hwc": SMALL + "--dtype f32 --layout hwc --statistics --specials",
    "bf16-five-channels": SMALL + "--dtype bf16 --channels 5",
    "u8-gray-statistics": SMALL + "--dtype u8 --channels 1 --statistics --unlabeled",
    "u16-hwc": SMALL + "--dtype u16 --layout hwc --channels 2",
    "variable-size": "--height 6 --width 5 --count 6 --variable",
    "aligned-4096": "--height 2 --width 2 --count 2 --alignment 4096",
    "labels-of-every-kind": SMALL + "--fields all --odd-names --unlabeled",
    "no-label": SMALL + "--fields=",
    "odd-keys": "--height 1 --width 1 --count 5 --odd-keys",
    "shuffled-shards": "--height 3 --width 4 --count 14 --shard-size 700 --shuffle 3 --skip-every 4",
    "empty-shard": "--height 3 --width 4 --count 10 --shard-size 600 --skip-range 2:9",
    "zstd-none": SMALL + "--compress 3 --filter none",
    "zstd-shuffle": SMALL + "--compress 3 --filter shuffle --dtype f32 --statistics",
    "zstd-table": SMALL + "--compress 3 --filter table --layout hwc --statistics",
    "zstd-table-misfit": SMALL + "--compress 3 --filter table --dtype bf16 --specials --shard-size 128",
    "zstd-delta-wide-labels": SMALL + "--compress 3 --filter delta --dtype u8 --variable --fields all",
    "two-splits": SMALL + "--splits train,test",
}
V1 = {
    "plain": SMALL + "--statistics",
    "generations": "--height 3 --width 4 --count 7 --shard-size 300 --append 1,5 --skip-every 3",
    "generations-variable-wide": "--height 6 --width 5 --count 5 --variable --fields all --odd-names "
                                 "--unlabeled --append 4 --shard-size 600",
    "generations-zstd-shuffled": "--height 3 --width 4 --count 9 --shard-size 700 --shuffle 3 "
                                 "--compress 3 --filter table --statistics --append 6",
    "generations-of-two-splits": SMALL + "--splits train,test --append 2",
}
# Each of its parts is PART-I beside the set that they make.
PARTS = {
    "parts": (3, "--height 3 --width 4 --count 11 --shard-size 400 --splits train,test --skip-every 4"),
    "parts-variable-wide-zstd": (2, "--height 6 --width 5 --count 9 --variable --fields all --compress 3 "
                                    "--filter shuffle --shard-size 700"),
}
V1.update({name: arguments for name, (_, arguments) in PARTS.items()})
CASES = {"v0/" + name: arguments for name, arguments in V0.items()}
CASES.update({"v1/" + name: arguments for name, arguments in V1.items()})


def version_of(name):
    return ["--format-version", name[1:].split("/")[0]]


def zstd_version():
    try:
        return str(ctypes.CDLL("libzstd.so.1").ZSTD_versionNumber())
    except OSError:
        return "unknown"


def splits_of(folder):
    """The split folders below, as paths relative to it."""
    return sorted(os.path.relpath(at, folder) for at, _, files in os.walk(folder)
                  if "index.ffx" in files)


def files_of(folder):
    return sorted(os.path.relpath(os.path.join(at, name), folder)
                  for at, _, files in os.walk(folder) for name in files if name != "history.jsonl")


def dump_name(split):
    return "dump.jsonl" if split == "." else "dump-%s.jsonl" % split


def main():
    build = os.environ.get("BUILD", os.path.join(HERE, "..", "..", "build"))
    for name, arguments in CASES.items():
        folder = os.path.join(HERE, name)
        if os.path.exists(folder):
            continue
        os.makedirs(folder)
        made = os.path.join(folder, "set")
        subprocess.run([os.path.join(build, "tests", "make_set"), made] + version_of(name) + arguments.split(),
                       check=True, stdout=subprocess.DEVNULL)
        count = PARTS.get(name.split("/")[1], (0, ""))[0]
        for i in range(1, count + 1):
            subprocess.run([os.path.join(build, "tests", "make_set"), "%s/part-%d" % (folder, i), "--part",
                            "%d/%d" % (i, count)] + version_of(name) + arguments.split(),
                           check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "arguments"), "w") as file:
            file.write(arguments + "\n")
        if "--compress" in arguments:
            with open(os.path.join(folder, "zstd-version"), "w") as file:
                file.write(zstd_version() + "\n")
        for split in splits_of(made):
            with open(os.path.join(folder, dump_name(split)), "wb") as file:
                subprocess.run([os.path.join(build, "tests", "dump_set"),
                                os.path.join(made, split)], check=True, stdout=file)
        print("wrote", folder)


if __name__ == "__main__":
    sys.exit(main())
