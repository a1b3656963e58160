"""Random packings: every sample has the class that the source says, everybody counts the same, and what is left out or changed is said."""
import json
import os
import re
import sys

import numpy

import sources
from cases import Wrong, refused, shell, tap
from sources import CANONICAL, SIDE, Source

sys.path.insert(0, os.path.join(tap.BUILD, "python"))
import ffload  # noqa: E402

CHOICES = {
    **sources.CHOICES,
    "dtype": ["u8", "f16", "f32"],
    "shuffle": [False, True],
    "compress": [False, True],
    "parts": [1, 2, "changed"],   # changed: the source is written again before the second part is packed
    "onto": [None, "a set", "a link", "a plain file system"],  # what --force replaces
    "turned": [False, True],      # the list's lines the other way round say the same
    "append": [0, 1, 2],          # nothing, another folder, the same folder again
    "again": [False, True],       # stdout of the append cannot be written
}
EVEN = {"source", "classes", "lost"}
PLAIN = ["--mean", "0,0,0", "--std", "1,1,1", "--shard-size", 4096]


def packed(folder):
    """[(number, class name or number, or None)] of a split, by Python."""
    found = []
    with ffload.Dataset(folder) as data:
        field = next(iter(data.fields), None)
        for i in range(len(data)):
            pixels, label = data[i]
            pixels = numpy.array(pixels, dtype="float64")
            pixels = pixels.reshape(3, -1)[:, 0] if data.layout == "chw" else pixels.reshape(-1, 3)[0]
            if data.dtype != "u8":
                pixels = numpy.round(pixels / 257 if data.dtype == "u16" else pixels * 255)
            if isinstance(label, dict):
                label = label[field] if label else None
            if numpy.ndim(label):
                label = [float(value) for value in label]
            elif isinstance(label, float):
                label = str(label)  # no class at all
            elif label is not None:
                label = None if int(label) < 0 else data.classes[int(label)] if data.classes else int(label)
            found.append((int(pixels[0]) + 256 * int(pixels[1]), label))
    return found


def split_folders(out):
    below = {name: os.path.join(out, name) for name in os.listdir(out) if os.path.isdir(os.path.join(out, name))}
    return below or {"": out}


def read(folder):
    try:
        return packed(folder)
    except Exception as error:
        raise Wrong("Python cannot read it", folder, error) from None


def names_of(out):
    with ffload.Dataset(next(iter(split_folders(out).values()))) as data:
        return list(data.classes or [])


def compare(source, answer):
    """Each sample and its class. Returns {split: items}."""
    expected, found = source.expected, {name: read(folder) for name, folder in split_folders("out").items()}
    twice = source.case["twice"] == 1 and answer.says("names an image once more")
    if len(expected) == 1 and list(found) == [""]:
        found = {next(iter(expected)): found[""]}
    if set(found) != set(expected):
        raise Wrong("splits", "wanted %s" % sorted(expected), "found %s" % sorted(found))
    if any(wanted.values() for wanted in expected.values()) and not any(name is not None for one in found.values() for _, name in one):
        if not answer.says("unlabeled", "left out", "no labels", "without labels"):
            raise Wrong("no label is there", answer)
        return {split: len(found[split]) for split in found}
    for split, wanted in expected.items():
        numbers = [number for number, _ in found[split]]
        if sorted(numbers) != sorted(set(numbers)) and not (twice and len(numbers) == len(set(numbers)) + 1):
            raise Wrong("a sample is packed twice", split, found[split])
        if not set(wanted) - source.absent <= set(numbers) <= set(wanted):
            raise Wrong("other samples", split, "missing %s" % sorted(set(wanted) - set(numbers)), "more %s" % sorted(set(numbers) - set(wanted)))
        if not source.case["matrix"]:
            check_classes(split, wanted, found[split])
        elif any(name != [number % 2, 1, number % 3 > 0] for number, name in found[split]):
            raise Wrong("labels of several classes", split, found[split][:3])
        emptied = set(wanted.values()) - {wanted[number] for number in numbers} - {None}
        if emptied and source.case["broken"]:
            raise Wrong("a class loses all of its samples", emptied, answer)
    return {split: len(found[split]) for split in found}


def check_classes(split, wanted, found):
    other = [(number, wanted[number], name) for number, name in found
             if name != (wanted[number] if isinstance(name, str) or wanted[number] is None else int(wanted[number]) if wanted[number].isdigit() else "")]
    if other:
        raise Wrong("labels by name", split, "(image, in the source, in the set): %s" % other[:4])


def inspect(source, counts, answer):
    """ffinspect counts items and classes as Python does, writes the labels beside --npy, or reports that it does not."""
    done = shell("ffinspect", "out", "--json")
    if done.code:
        raise Wrong("ffinspect fails", done)
    splits = json.loads(done.out)["splits"]
    if sorted(split["samples"] for split in splits) != sorted(counts.values()):
        raise Wrong("ffinspect counts otherwise", splits, counts)
    for split in splits:
        for field in split["fields"]:
            if source.case["matrix"] and field["kind"] != "multi-hot":
                raise Wrong("several classes are not multi-hot", field)
            if field["kind"] == "class" and (not isinstance(field["counts"], list) or sum(field["counts"]) + field["unlabeled"] != split["samples"]):
                raise Wrong("the classes' counts", field, split["samples"])
            if source.case["parts"] == 1 and not answer.says(field["name"]):
                raise Wrong("a field of labels that the summary does not name", field, answer)
    folder = next(iter(split_folders("out").values()))
    done = shell("ffinspect", folder, "--npy", "arrays.npy" if source.case["seed"] % 8 else "arrays")
    if done.code == 0 and any(split["fields"] for split in splits) and not any(name.startswith("arrays_") for name in os.listdir(".")) \
            and not os.path.isdir("arrays") and not done.says("no labels"):
        raise Wrong("--npy leaves out the labels", done)


def loaded(source):
    """The loader's values are the normalized ones, whatever is stored; NaN and infinite values are said by the packer."""
    odd = False
    for folder in split_folders("out").values():
        with ffload.Loader(folder, batch_size=4, order="sequential", last_batch="keep", as_="numpy", dtype="f32", workers=0) as batches:
            numbers = [number for number, _ in read(folder)]
            values = numpy.concatenate([numpy.array(images) for images, _ in batches]).reshape(len(numbers), 3, -1)
        odd = odd or not numpy.isfinite(values).all()
        wanted = numpy.array([(number % 256, number // 256) for number in numbers]) / 255
        if numpy.abs(values[:, :2, 0] - wanted).max() > 1e-3:
            raise Wrong("the loader's values are not the normalized ones", values[0, :, 0], wanted[0])
    return odd


def options_of(case):
    dtype, array = case["dtype"], case["array"] if case["source"] == "npz" else None
    if array == "u16" and dtype == "u8":
        dtype = "u16"
    if array == "f32" and dtype == "u8":
        dtype = "f16"
    options = [*PLAIN, "--dtype", dtype]
    if array == "u16" or array == "u8" and dtype != "u8":
        options += ["--range", "0,255" if array == "u8" else "0,65535"]
    for name, values in (("shuffle", ["--shuffle", case["seed"] % 100]), ("compress", ["--compress", "zstd:1"]),
                         ("missing", ["--allow-empty-classes"]), ("broken", ["--on-error", "skip"])):
        options += values if case[name] else []
    return options


def pack(source, options):
    case = source.case
    if case["parts"] == 1:
        return shell("ffpack", *source.arguments, "-o", "out", *options, preload="plain_fs.so" if case["onto"] == "a plain file system" else None)
    answers = ""
    for part in (2, 1):
        done = shell("ffpack", *source.arguments, "-o", "part%d" % part, *options, "--part", "%d/2" % part)
        if done.code:
            return done
        answers += done.out + done.err
        if case["parts"] == "changed" and source.rewrite and part == 2:
            source.rewrite()
            source.doubt("changed")
    done = shell("ffpack", "merge", "out", "part1", "part2")
    done.out += answers
    if case["parts"] == "changed" and source.rewrite and done.code == 0:
        states = {number >= 1000 for folder in split_folders("out").values() for number, _ in read(folder)}
        if len(states) > 1:
            raise Wrong("parts of two states of the source are one set", done)
        source.expected = {split: {number + 1000 * (True in states): name for number, name in wanted.items()} for split, wanted in source.expected.items()}
    return done


def old_set(case):
    """What --force replaces: returns what is to be read there if it fails."""
    os.makedirs("before/cat")
    sources.Image.new("RGB", (SIDE, SIDE), (200, 0, 77)).save("before/cat/a.png")
    done = shell("ffpack", "before", "-o", "old", *PLAIN)
    if done.code:
        raise Wrong("a plain folder is refused", done)
    if case["onto"] == "a link":
        os.symlink("old", "out")
    else:
        os.rename("old", "out")
    return read("out")


def run(case):
    source = Source(case)
    case = source.case
    if tap.SANITIZE or case["parts"] != 1 or case["twice"]:
        case = source.case = dict(case, onto=None)
    options = options_of(case)
    before = old_set(case) if case["onto"] else None
    options += ["--force"] if case["onto"] else []
    dry = shell("ffpack", *source.arguments, "-o", "out", *options, "--dry-run", "--json")
    done = pack(source, options)
    if done.code:
        refused(done, "ffpack")
        if not source.doubtful and not (case["shuffle"] and case["source"] == "zip"):
            raise Wrong("a plain source is refused", done)
        if dry.code == 0 and case["parts"] != "changed" and not done.says(" of class "):
            raise Wrong("a dry run promises what is refused", done)
        if before and read("out") != before:
            raise Wrong("a refused --force changed the old set", done)
        return
    if dry.code and case["parts"] == 1:
        raise Wrong("a dry run refuses what is packed", dry)
    counts = {}
    if case["pixels"] != "gray of 16 bits" or case["source"] in ("npz", "cifar"):
        counts = compare(source, done)
        inspect(source, counts, done)
        if not source.absent and case["pixels"] == "rgb" and loaded(source) and not done.says("inf or NaN"):
            raise Wrong("NaN and infinite values, without a word", done)
        said = sorted(split["items"] for split in json.loads(dry.out)["splits"]) if not dry.code else []
        if said != sorted(counts.values()) and not case["broken"]:
            raise Wrong("the dry run counts otherwise", said, counts)
    else:
        clipped = sum(map(int, re.findall(r"(\d+) images? ha\w+ greys", done.out)))
        if not source.number <= clipped + len(source.absent) <= source.number + bool(case["twice"]):
            raise Wrong("pixels become white without a word", clipped, done)
    for why, words in source.doubtful:
        if words and not done.says(*words) and (not source.absent or sum(counts.values()) < sum(map(len, source.expected.values()))):
            raise Wrong("%s, without a word" % why, done)
    if case["turned"] and case["source"] in ("list", "labels") and not case["header"] and not case["index"] and "split" not in source.rows[0]:
        turn(source, options)
    if case["append"] and case["source"] in ("folder", "zip") and not case["broken"] and case["pixels"] == "rgb":
        append(case, source)


def turn(source, options):
    """The same lines the other way round: the same classes."""
    path, names = "labels.csv" if source.case["source"] == "labels" else "list.csv", names_of("out")
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write("".join(reversed(source.rows)))
    done = shell("ffpack", *source.arguments, "-o", "turned", *options)
    if done.code or names_of("turned") != names:
        raise Wrong("the order of a list's lines decides", names, done if done.code else names_of("turned"))


def append(case, source):
    target = next(iter(split_folders("out").values()))
    before = read(target)
    if case["append"] == 1:
        number = source.number + 1
        for name in sorted({name for _, name in before}):
            source.save(number, "more/%s/n%d.png" % (name, number))
            number += 1
    else:
        split = [name for name in source.case["splits"] if target.endswith(CANONICAL.get(name.lower(), name.lower()))] if len(source.expected) > 1 else []
        os.symlink(os.path.join("src" if case["source"] == "folder" else "tree", *split), "more")
    done = shell("ffpack", "append", target, "more", full=case["again"])
    after = read(target)
    if done.code and (done.says("unchanged") or not case["again"]):
        if after != before:
            raise Wrong("a refused append changed the set", done)
        if case["append"] == 1 and not case["again"]:
            raise Wrong("a plain append is refused", done)
    if done.code:
        refused(done, "ffpack")
    elif case["again"]:
        raise Wrong("an answer is lost, and the exit code is 0", done)
    elif len({number for number, _ in after}) != len(after):
        raise Wrong("append makes duplicates without a word", done)


if __name__ == "__main__":
    sys.exit("run by test_random.py")
