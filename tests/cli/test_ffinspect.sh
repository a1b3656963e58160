#!/bin/bash
# ffinspect from outside: what it prints and writes, compared with other programs' view of the same
# files, and its answers to bad input. TAP. Environment: BUILD, PYTHON.
# Needs: ffinspect tests/make_set
set -u
BUILD=${BUILD:-build} PYTHON=${PYTHON:-/usr/bin/python3}
case "$BUILD" in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
ffinspect=$BUILD/ffinspect make_set=$BUILD/tests/make_set
. "$(dirname "$0")/../tap.sh"
work=$scratch
cd "$work" || exit 1
# expect NAME CODE PATTERN ARGUMENT...: exit code, and PATTERN (extended) in standard output or error
expect() {
    local name=$1 code=$2 pattern=$3 found; shift 3
    timeout 60 "$ffinspect" "$@" >out 2>err; found=$?
    if [ $found -eq "$code" ] && cat out err | grep -qE -- "$pattern"; then result 0 "$name"; else
        verdict "exit $found, wanted $code and /$pattern/" "$name" out err
    fi
}
# refused NAME CODE PATTERN ARGUMENT...: one message on standard error, nothing on standard output
refused() {
    local name=$1 code=$2 pattern=$3 found; shift 3
    timeout 60 "$ffinspect" "$@" >out 2>err; found=$?
    if [ $found -eq "$code" ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] && grep -qE -- "^ffinspect: .*$pattern" err
    then result 0 "$name"; else
        verdict "exit $found, wanted $code and one sentence with /$pattern/" "$name" out err
    fi
}
make() { "$make_set" "$@" >made 2>&1 || { result 1 "make_set $*"; sed 's/^/# /' made; exit 1; }; }
python() { # python NAME: the script on standard input prints what is wrong, or nothing
    local name=$1 said; shift
    said=$("$PYTHON" - "$@" 2>&1)
    if [ -z "$said" ]; then result 0 "$name"; else result 1 "$name"; printf '%s\n' "$said" | sed 's/^/# /' | tail -20; fi
}

make both --statistics --count 60 --splits train,test
make all --variable --compress 3 --fields all --specials --count 50 --odd-names --odd-keys --unlabeled --shuffle 3 \
    --skip-every 7 --shard-size 64K
make many --dtype u8 --channels 1 --height 28 --width 28 --layout hwc --statistics --count 2000 --classes 1000
make grown --dtype f32 --count 300 --shard-size 256K --specials

# ---- summary and JSON
expect "summary names every split" 0 '^test: 30 samples of 3 x 32 x 32 f16' both
grep -q '^train: 60 samples' out && grep -q 'already normalized' out && grep -q 'mean 0.25, 0.3125, 0.375' out
result $? "summary says shape and normalisation"
expect "a long list of classes is cut" 0 '\.\.\. and 980 more' many
grep -q 'raw; mean and std are recorded' out; result $? "u8: normalisation is recorded, not applied"
expect "--classes-limit 0 lists all" 0 ' 999  diamond-999' many --classes-limit 0
expect "odd class names are safe to print" 0 'new%0Aline' all
expect "variable sizes, skipped items, other order" 0 'skipped +7 of the source.s 50 items' all
grep -q 'zstd level 3, filter shuffle; stored in another order' out && grep -q 'sizes .* pixels high' out
result $? "summary says compression, order and sizes"
"$ffinspect" both --json --stats --verify >both.json && "$ffinspect" all --json --sample 0:43 --verify >all.json &&
    "$ffinspect" both/train --json --sample 0:60 >raw.json
result $? "--json with --stats, --verify and --sample"
python "the document reports what the options of the set were" <<'PYTHON'
import json, struct, urllib.parse
both, all_ = json.load(open("both.json")), json.load(open("all.json"))
train, test = both["splits"]
assert [train["split"], test["split"]] == ["train", "test"] and train["samples"] == 60
assert train["shape"] == [3, 32, 32] and train["dtype"] == "f16" and train["compression"] is None
assert train["normalize"]["state"] == "applied"
for value, bits in zip(train["normalize"]["mean"], train["normalize"]["mean_bits"]):
    assert struct.unpack(">f", bytes.fromhex(bits))[0] == value
label = train["fields"][0]
assert label["kind"] == "class" and sum(label["counts"]) + label["unlabeled"] == 60 and label["classes"][0] == "disk"
assert train["ids"]["transform"] == test["ids"]["transform"] and train["ids"]["content"] != test["ids"]["content"]
assert train["verify"]["good"] and len(train["stats"]) == 3 and train["stats"][0]["finite"] == 60 * 1024
split = all_["splits"][0]
assert split["compression"] == {"name": "zstd", "level": 3, "filter": "shuffle"} and split["variable_size"]
assert not split["stored_in_number_order"] and split["samples"] == 43 and split["items"] == 50
assert sum(shard["samples"] for shard in split["shards"]) == 43
names = [urllib.parse.unquote_to_bytes(name) for name in split["fields"][0]["classes"]]
assert names == [b"two words", b'100% "quoted"', b"caf\xc3\xa9", b"\xff\xfe\x01", b"new\nline", b""], names
kinds = {field["name"]: (field["kind"], field["dtype"], field["width"]) for field in split["fields"]}
assert len(kinds) == 14 and kinds["points"] == ("vector", "i64", 7) and kinds["none"] == ("none", "u8", 0)
items = [sample["item"] for sample in split["sample"]]
assert items == [i for i in range(50) if i % 7 != 6]
for sample in split["sample"]:
    item, key = sample["item"], urllib.parse.unquote_to_bytes(sample["key"])
    if item % 5 == 4:
        assert key == b"made-up/%06d.png" % item, key
    else:
        assert len(key) == [0, 4096, 40, 40][item % 5], (item, len(key))
    labels = {entry["field"]: entry["label"] for entry in sample["labels"]}
    assert labels["none"] is None and sum(labels["soft"]["values"]) == 1 and len(labels["wide-tags"]["values"]) == 40
    assert (labels["label"]["value"] == -1) == (item % 10 == 7)
    if item % 10 != 7:
        assert urllib.parse.unquote_to_bytes(labels["label"]["class"]) == names[labels["label"]["value"]]
    assert set(labels["tags"]["values"]) <= {0, 1} and all(-100 <= v < 100 for v in labels["points"]["values"])
counts = [0] * 6
for sample in split["sample"]:
    value = sample["labels"][0]["label"]["value"]
    if value >= 0: counts[value] += 1
assert counts == split["fields"][0]["counts"]
PYTHON
python "--sample's place, values and checksum are those of the shard" <<'PYTHON'
import json, struct
try: import xxhash
except ImportError: xxhash = None
shard = open("both/train/shard-000000.ffs", "rb").read()
split = json.load(open("raw.json"))["splits"][0]
for sample in split["sample"]:
    payload = shard[sample["offset"]:sample["offset"] + sample["bytes"]]
    assert sample["offset"] % 64 == 0 and sample["bytes"] == 3 * 32 * 32 * 2
    assert list(struct.unpack("<16e", payload[:32])) == sample["first_values"]
    if xxhash: assert xxhash.xxh3_64_hexdigest(payload) == sample["checksum"]
PYTHON
expect "--sample in words" 0 'key +made-up/000004.png' all --sample 3:6
grep -q 'label: 4 new%0Aline' out && grep -q 'checksum  [0-9a-f]\{16\}' out && grep -q 'channel 2 of 3' out
result $? "--sample shows labels, checksum and values"

# ---- --npy and --stats, by NumPy
if "$PYTHON" -c 'import numpy' 2>/dev/null; then
    i=0
    for options in "--dtype f32" "--dtype f16 --statistics" "--dtype bf16 --layout hwc" "--dtype u8" "--dtype u16 --noise" \
        "--dtype f32 --channels 1 --specials" "--dtype f16 --layout hwc --channels 5 --specials --statistics"; do
        i=$((i + 1))
        common="$options --count 70 --height 13 --width 9 --seed $i"
        filter=shuffle; case $options in *u8*) filter='delta' ;; *statistics*) filter='table' ;; esac
        # shellcheck disable=SC2086
        make "plain$i" $common
        # shellcheck disable=SC2086
        make "packed$i" $common --shuffle 4 --compress 2 --filter $filter --shard-size 4K
        "$ffinspect" "plain$i" --npy "plain$i.npy" >/dev/null && "$ffinspect" "packed$i" --npy "packed$i.npy" >/dev/null &&
            "$ffinspect" "packed$i" --npy - >"stream$i.npy" && cmp "plain$i.npy" "packed$i.npy" &&
            cmp "plain$i.npy" "stream$i.npy"
        result $? "--npy: $options: the same from shuffled and compressed shards, and through a pipe"
        "$ffinspect" "plain$i" --json --stats -j 1 >one.json && "$ffinspect" "plain$i" --json --stats -j 5 >five.json && cmp one.json five.json
        result $? "--stats: $options: the same with 1 and 5 threads"
        python "--npy and --stats: $options: NumPy agrees" "$i" "$options" <<'PYTHON'
import json, math, sys, numpy
i, options = sys.argv[1], sys.argv[2]
split = json.load(open("one.json"))["splits"][0]
array = numpy.load(f"plain{i}.npy")
dtype = {"u8": "uint8", "u16": "uint16", "f16": "float16", "bf16": "uint16", "f32": "float32"}[split["dtype"]]
assert array.shape == (70, *split["shape"]) and array.dtype == dtype, (array.shape, array.dtype)
shard = open(f"plain{i}/shard-000000.ffs", "rb").read()
slot = -(-array[0].nbytes // 64) * 64
for k in range(70):
    assert shard[4096 + k * slot:4096 + k * slot + array[0].nbytes] == array[k].tobytes(), f"sample {k}"
if split["dtype"] == "bf16": array = (array.astype("uint32") << 16).view("float32")
values = numpy.moveaxis(array, -1 if split["layout"] == "hwc" else 1, 0).reshape(split["channels"], -1).astype("float64")
for row, stats in zip(values, split["stats"]):
    finite = row[numpy.isfinite(row)]
    wanted = dict(mean=finite.mean(), std=finite.std(), min=finite.min(), max=finite.max(), finite=len(finite),
                  nan=int(numpy.isnan(row).sum()), infinite=int(numpy.isinf(row).sum()))
    for name in wanted:
        if not math.isclose(stats[name], wanted[name], rel_tol=1e-11, abs_tol=1e-13): print(name, stats[name], wanted[name])
if "specials" in options and not any(stats["nan"] for stats in split["stats"]): print("no NaN was counted")
PYTHON
    done
    "$ffinspect" plain1 --sample 5:9 --npy some.npy >/dev/null
    python "--npy with --sample writes those samples" <<'PYTHON'
import numpy
assert (numpy.load("some.npy") == numpy.load("plain1.npy")[5:9]).all()
assert (numpy.load("some_label.npy") == numpy.load("plain1_label.npy")[5:9]).all()
PYTHON
    make labelled --fields all --unlabeled --count 50 --compress 2 --shuffle 5
    expect "--npy reports where the labels are" 0 '^labelled.npy: 50 samples as stored; labels in labelled_label.npy, ' labelled --npy labelled.npy
    expect "--npy without labels reports it" 0 '^noext: 50 samples as stored; no labels: they are written only next to a name that ends in .npy$' labelled --npy noext
    ls noext?* >/dev/null 2>&1; [ $? -ne 0 ]; result $? "... and there are none"
    make nolabels --fields none --count 5
    expect "--npy of a set without labels" 0 '^none.npy: 5 samples as stored; there are no labels$' nolabels --npy none.npy
    echo mine >other_label.npy
    refused "--npy next to a file that labels would replace" 2 'other.npy would have its labels in other_label.npy, which is there already' labelled --npy other.npy
    [ "$(cat other_label.npy)" = mine ] && [ ! -e other.npy ]; result $? "... leaves it as it is"
    expect "--npy once more replaces samples and labels" 0 '^labelled.npy: 50 samples as stored; labels in labelled_label.npy, ' labelled --npy labelled.npy
    expect "--npy of samples of different sizes" 0 '^sized: 43 samples as stored, an array each in this folder; labels in sized_label.npy, ' all --npy sized
    "$ffinspect" labelled --json --sample 0:50 >labelled.json && "$ffinspect" all --json --sample 0:43 >sized.json
    python "--npy writes every label, and samples of different sizes in an array each" <<'PYTHON'
import glob, json, numpy, os
types = dict(u8="uint8", u16="uint16", i32="int32", i64="int64", f16="float16", f32="float32", bf16="uint16")
small, counted, named = set(), [], set()
for name in ("labelled", "sized"):
    split = json.load(open(name + ".json"))["splits"][0]
    written = 0
    for i, field in enumerate(split["fields"]):
        path = f"{name}_{field['name']}.npy"
        assert os.path.exists(path) == (field["kind"] != "none"), path
        if field["kind"] == "none": continue
        array = numpy.load(path)
        written += 1
        for k, sample in enumerate(split["sample"]):
            label = sample["labels"][i]["label"]
            value = [label["value"]] if field["kind"] == "class" else label["values"]
            assert array.dtype == types[field["dtype"]], path
            assert array.shape == ((len(split["sample"]),) if field["kind"] == "class" else (len(split["sample"]), field["width"])), (path, array.shape)
            row = numpy.atleast_1d(array[k])[:len(value)]
            if field["dtype"] == "bf16": row = (row.astype("uint32") << 16).view("float32")
            assert numpy.array_equal(row, numpy.asarray([float("nan") if v is None else v for v in value], row.dtype), equal_nan=row.dtype.kind == "f"), (path, k, row, value)
        size = field["width"] * numpy.dtype(types[field["dtype"]]).itemsize
        assert field["in_index"] == (size <= 16), field
        small.add(size) if size <= 16 else None
        if field["kind"] == "class":
            given = [s["labels"][i]["label"]["value"] for s in split["sample"]]
            named.add(bool(field.get("classes")))
            most = len(field.get("classes") or ()) or max(v for v in given if v < 65536) + 1
            assert field["counts"] == [given.count(v) for v in range(most)], (field, given)
        if field["kind"] == "multi-hot" and "counts" in field:
            given = [s["labels"][i]["label"]["values"] for s in split["sample"]]
            assert field["counts"] == [sum(map(bool, column)) for column in zip(*given)], field
            assert field["unlabeled"] == sum(not any(row) for row in given), field
            counted.append(field["unlabeled"])
    assert len(glob.glob(name + "_*.npy")) == written > 10
assert 16 in small and counted and any(counted) and named == {False, True}, (small, counted, named)
files = sorted(os.listdir("sized"))
assert files == ["%02d.npy" % k for k in range(43)], files
for sample in split["sample"]:
    array = numpy.load("sized/%02d.npy" % sample["number"])
    assert list(array.shape) == sample["shape"], (array.shape, sample)
    first = array.ravel()[:len(sample["first_values"])].astype("float64")
    wanted = [float(v) if v is not None else float("nan") for v in sample["first_values"]]
    assert numpy.array_equal(first, wanted, equal_nan=True), (first, wanted)
PYTHON
    expect "--npy of some samples of different sizes" 0 '^few: 3 samples' all --npy few --sample 8:11
    [ "$(ls few)" = "$(printf '08.npy\n09.npy\n10.npy')" ] && cmp few/09.npy sized/09.npy; result $? "... by their numbers"
else
    skip "--npy and --stats" "python3-numpy is not here"
fi
refused "--npy of samples of different sizes to standard output" 2 "different sizes, .* name a new folder for them, not '-'" all --npy -
mkdir taken
refused "--npy to an archive" 2 "archives \(.npz\) are not written; name a new folder" all --npy all.npz
refused "--npy of samples of different sizes next to a file that labels would replace" 2 'other would have its labels in other_label.npy' all --npy other
refused "--npy of samples of different sizes to what exists" 2 "name a new folder for them, not 'taken'" all --npy taken
cp -r all bad_sizes && truncate -s -20000 "bad_sizes/$(ls bad_sizes | grep ffs | tail -1)"
mkdir place && "$ffinspect" bad_sizes --npy place/new >/dev/null 2>&1; [ $? -ne 0 ] && [ -z "$(ls -A place)" ]
result $? "... leaves nothing where it fails"
for mask in 022 027 077; do
    (umask $mask; "$ffinspect" both/test --npy mode.npy --png mode.png >/dev/null)
    want=$(printf '%o' $((0666 & ~0$mask)))
    [ "$(stat -c %a mode.npy mode.png | sort -u)" = "$want" ]; result $? "files have the mode $want where umask is $mask"
    rm -f mode.npy mode_*.npy mode.png
done

# The summary's counts, against the files and the samples.
make counted --variable --compress 3 --height 16 --width 40 --count 400 --skip-every 5 --shard-size 64K --fields label,tags
"$ffinspect" counted >counted.txt && "$ffinspect" counted --json >counted.json && "$ffinspect" counted --sample 0:320 >counted.samples
python "counts of files, positions and sizes" <<'PYTHON'
import json, os, re
split = json.load(open("counted.json"))["splits"][0]
samples = open("counted.samples").read()
shapes = [tuple(map(int, found)) for found in re.findall(r"shape +\d+ x (\d+) x (\d+) ", samples)]
assert len(shapes) == 320 == split["samples"] and len(split["shards"]) > 2
assert split["bytes"]["total"] == sum(os.path.getsize("counted/" + name) for name in os.listdir("counted"))
assert sum(shard["positions"] for shard in split["shards"]) == 400 == split["items"]
assert sum(shard["samples"] for shard in split["shards"]) == 320
assert split["stored_in_number_order"] is True
high, wide = [sorted(side) for side in zip(*shapes)]
wanted = "%d to %d pixels high, %d to %d wide" % (high[0], high[-1], wide[0], wide[-1])
assert wanted in open("counted.txt").read(), wanted
PYTHON
# ---- --sample's text against the array, at and beyond the size that is shown
if "$PYTHON" -c 'import numpy' 2>/dev/null; then
    for shape in "chw 3 6 8" "hwc 3 6 8" "chw 5 7 9" "hwc 5 7 9" "hwc 4 5 7" "chw 1 7 8"; do
        read -r layout channels height width <<<"$shape"
        make corner --dtype f32 --layout "$layout" --channels "$channels" --height "$height" --width "$width" --count 3
        "$ffinspect" corner --npy corner.npy >/dev/null && "$ffinspect" corner --sample 1 >corner.txt
        python "--sample shows the corner of $shape" "$layout" <<'PYTHON'
import re, sys, numpy
array = numpy.load("corner.npy")[1]
if sys.argv[1] == "hwc": array = array.transpose(2, 0, 1)
channels, height, width = array.shape
lines = open("corner.txt").read().split("\n")
lines = lines[next(i for i, line in enumerate(lines) if line.startswith("  channel 0")):]
wanted = []
for c in range(min(3, channels)):
    wanted.append("  channel %d of %d" % (c, channels))
    for y in range(min(6, height)):
        row = ["%.4g" % value for value in array[c, y, :8]]
        wanted.append(" ".join(row + ["..."] if width > 8 else row))
    if height > 6: wanted.append("...")
if channels > 3: wanted.append("  ... and %d more channels" % (channels - 3))
found = [line if line.startswith("  channel") or "more" in line else " ".join(line.split()) for line in lines if line]
if found != wanted: print("\n".join(found), "\nwanted\n", "\n".join(wanted))
PYTHON
        rm -rf corner corner.npy corner_*.npy
    done
fi

# ---- contact sheets
expect "--png" 0 '^sheet.png: 20 samples of 2 splits in 4 rows of 5, .* denormalized' both --grid 4x5 --png sheet.png
expect "--png by --seed" 0 '12 samples' both/train --grid 3x4 --png a.png --seed 7
"$ffinspect" both/train --grid 3x4 --png b.png --seed 7 >/dev/null && cmp a.png b.png && "$ffinspect" both/train --grid 3x4 --png c.png --seed 8 >/dev/null && ! cmp -s a.png c.png
result $? "the same seed gives the same sheet, another one another"
expect "--png of fewer samples than places" 0 '60 samples in 1 row of 60' both/train --grid 9x200 --png wide.png
expect "--png of samples of every size, with NaN" 0 '43 samples' all --grid 7x7 --png all.png --label mix
expect "--png of one channel of bytes" 0 'raw values' many --png many.png
make wide --dtype u16 --channels 2 --height 3 --width 700 --count 5 --fields ''
expect "--png of two channels, very wide, without labels" 0 '5 samples' wide --png wide.png
if "$PYTHON" -c 'import PIL, numpy' 2>/dev/null; then
    make bytes --dtype u8 --count 60 --seed 3 --fields ''
    make halves --dtype f16 --layout hwc --statistics --count 60 --seed 3 --compress 1 --filter table --fields ''
    export FFPACK_PANGO=0 # the size of a line of text is known
    "$ffinspect" bytes --png bytes.png >/dev/null && "$ffinspect" halves --png halves.png >/dev/null && "$ffinspect" bytes --npy bytes.npy >/dev/null
    python "a sheet's images are the samples, enlarged, and denormalized to the same bytes" <<'PYTHON'
import numpy
from PIL import Image
sheet, halves = (numpy.asarray(Image.open(name).convert("RGB")) for name in ("bytes.png", "halves.png"))
samples = numpy.load("bytes.npy")
picture = samples[60 // 64].transpose(1, 2, 0).repeat(4, 0).repeat(4, 1)
places = [(y, x) for y in range(sheet.shape[0] - 127) for x in range(60)
          if (sheet[y:y + 128, x:x + 128] == picture).all()]
assert len(places) == 1, places
y, x = places[0]
assert (sheet[y:] == halves[y:]).all(), "the sheets differ"  # the titles name the types
for i in range(32):
    top, left = y + i // 8 * 164, x + i % 8 * 142
    picture = samples[(2 * i + 1) * 60 // 64].transpose(1, 2, 0).repeat(4, 0).repeat(4, 1)
    assert (sheet[top:top + 128, left:left + 128] == picture).all(), f"sample {i}"
    caption = sheet[top + 130:top + 150, left:left + 128]
    assert (caption.max(axis=2) < 60).any(), f"sample {i} has no caption"
PYTHON
    unset FFPACK_PANGO
else
    skip "a sheet's images are the samples" "python3-pil or python3-numpy is not here"
fi

# ---- --bench
expect "--bench" 0 '^ +random +2 .*%$' grown --bench -j 2
expect "--bench reports that a small set's first pass is repeated" 0 'small: a first pass is the mean of several' grown --bench -j 2
expect "--bench reports that threads have nothing to read" 0 'not every one of the 9 threads reads' grown --bench -j 9
"$ffinspect" all --bench -j 1 --json >bench.json
python "--bench in JSON" <<'PYTHON'
import json
bench = json.load(open("bench.json"))["splits"][0]["bench"]
assert bench["samples"] == 43 and len(bench["rows"]) == 2
assert all(1 < row["first_passes"] <= 500 for row in bench["rows"])
for row in bench["rows"]:  # as long as was measured, or as often as a first pass is repeated
    assert row["first_passes"] == 500 or row["first_passes"] * 43 / row["first_pass_samples_per_second"] > 0.099
assert all(row[name] > 0 for row in bench["rows"] for name in row if name not in ("order",))
PYTHON

# ---- --verify, and broken sets
expect "slashes after the folder's name" 0 '^both/train: verified' both/// --verify
mkdir begun begun.partial
refused "a folder whose packing was not finished" 65 'begun: is not a packed set.*its packing was not finished: the same ffpack command' begun
rmdir begun
refused "nothing but the unfinished packing" 74 'no such folder, but begun.partial is there' begun
expect "--verify: all splits, all bytes" 0 '^both/train: verified: [0-9]+ bytes in 2 files, all good$' both --verify
grep -q "^both/train: verified: $(cat both/train/* | wc -c) bytes" out && grep -q '^both/test: verified' out
result $? "... counted right"
flip() { # flip FILE OFFSET: one bit
    "$PYTHON" -c 'import sys
file = open(sys.argv[1], "r+b"); file.seek(int(sys.argv[2])); byte = file.read(1)[0]
file.seek(int(sys.argv[2])); file.write(bytes([byte ^ 4]))' "$1" "$2"
}
cp -r both bad && flip bad/train/shard-000000.ffs 5000
expect "--verify names the flipped sample, and continues" 65 '^problem: bad/train/shard-000000.ffs: offset 4096: ' bad --verify
grep -q '^bad/test: verified' out && grep -q '^ffinspect: bad/train: 1 problem' err; result $? "... to the other split"
"$ffinspect" bad --verify --json >bad.json 2>err; [ $? -eq 65 ]; result $? "--verify --json: exit 65"
python "... and lists the problem" <<'PYTHON'
import json
train, test = json.load(open("bad.json"))["splits"]
assert not train["verify"]["good"] and train["verify"]["problem_count"] == 1 and test["verify"]["good"]
PYTHON
refused "--stats of a flipped sample" 65 'bad/train/shard-000000.ffs: offset 4096: sample 0 has checksum' bad/train --stats
refused "--npy of a flipped sample" 65 'offset 4096: sample 0 has checksum' bad/train --npy bad.npy
refused "--png of a flipped sample" 65 'offset 4096: sample 0 has checksum' bad/train --grid 9x9 --png bad.png
refused "--sample of a flipped sample" 65 'sample 0 has checksum' bad/train --sample 0
refused "--bench of a flipped sample" 65 'sample 0 has checksum' bad/train --bench
[ ! -e bad.npy ] && [ ! -e bad.png ] && ! compgen -G 'bad.*.??????' >/dev/null; result $? "... leave no files"
expect "other samples can still be read" 0 'made-up/000001' bad/train --sample 1
size=$(stat -c %s both/train/index.ffx)
for offset in 0 100 2000 4096 5000 $((size / 2)) $((size - 1)); do
    cp both/train/index.ffx both/train/shard-000000.ffs bad/train/ && flip bad/train/index.ffx "$offset"
    "$ffinspect" bad/train --verify >out 2>err; code=$?
    [ $code -eq 65 ] && grep -q 'bad/train/index.ffx' err; result $? "a flipped bit in the index at $offset"
done
for length in 0 1 4095 4096 $((size - 1)); do
    cp both/train/index.ffx bad/train/ && truncate -s "$length" bad/train/index.ffx
    refused "an index cut to $length bytes" 65 'bad/train/index.ffx' bad/train
done
cp both/train/index.ffx bad/train/
for length in 0 4096 100000; do
    truncate -s "$length" bad/train/shard-000000.ffs
    refused "a shard cut to $length bytes" 65 "shard-000000.ffs: $length bytes long, wanted" bad/train
done
cp -r both last && flip last/test/shard-000000.ffs 5000
expect "--verify of a set whose last split alone is broken" 65 '^problem: last/test/shard-000000.ffs: offset 4096: ' last --verify
grep -q '^last/train: verified' out && grep -q '^ffinspect: last/test: 1 problem' err; result $? "... and its message is about that"
"$ffinspect" last --verify --json >last.json 2>err; [ $? -eq 65 ]; result $? "... with --json too"
cp -r many worn && "$PYTHON" -c 'import sys
data = bytearray(open(sys.argv[1], "rb").read())
for sample in range(2000):  # of 784 bytes in slots of 832
    data[4096 + sample * 832] ^= 4
open(sys.argv[1], "wb").write(data)' worn/shard-000000.ffs
expect "--verify of a set whose samples are all broken" 65 '^problem: \.\.\. and 1000 more$' worn --verify
[ "$(grep -c '^problem: worn' out)" -eq 1000 ]; result $? "... lists a thousand of them"
rm bad/train/shard-000000.ffs
refused "a missing shard" 74 'bad/train/shard-000000.ffs: .*No such file' bad/train
cp both/train/shard-000000.ffs bad/train/ && rm bad/train/index.ffx
refused "a missing index" 65 'bad/train: .*index.ffx' bad/train
expect "a split without its index is not passed over" 65 'bad/train: .*index.ffx' bad --verify

# ---- files that shrink while they are read, and readers that stop
make large --dtype f32 --count 600
mkfifo pipe
cp -r large shrinks
timeout 20 cat pipe >through.npy & pid=$!
timeout 20 "$ffinspect" plain1 --npy pipe >/dev/null && wait $pid && [ -p pipe ] && cmp plain1.npy through.npy
result $? "--npy into a named pipe, which stays one"
"$ffinspect" shrinks --npy - >pipe 2>err & pid=$!
exec 3<pipe
head -c 1000 <&3 >/dev/null
truncate -s 8192 shrinks/shard-000000.ffs
cat <&3 >/dev/null; exec 3<&-
wait $pid; code=$?
[ $code -eq 74 ] && [ "$(wc -l <err)" -eq 1 ] && grep -qE 'shrinks/shard-000000.ffs: .*offset [0-9]+|offset [0-9]+.*shrinks/shard-000000.ffs' err
result $? "a shard that shrinks while it is read: a message with path and offset, exit 74"
[ $code -eq 74 ] || { echo "# exit $code"; sed 's/^/# /' err; }
"$ffinspect" large --npy - >pipe 2>err & pid=$!
exec 3<pipe
head -c 1000 <&3 >/dev/null
kill -INT $pid
cat <&3 >/dev/null; exec 3<&-
wait $pid; code=$?
[ $code -eq 130 ] && grep -q 'stopped by SIGINT' err; result $? "SIGINT: exit 130"
"$ffinspect" large --npy - 2>err | head -c 100 >/dev/null; code=${PIPESTATUS[0]}
[ "$code" -eq 74 ]; result $? "a reader that stops: exit 74"
"$ffinspect" grown --sample 0:300 2>err | head -n 1 >/dev/null; code=${PIPESTATUS[0]}
[ "$code" -eq 74 ] && [ ! -s err ]; result $? "... of text: without a message"
for options in "" "--json" "--verify" "--sample 0:20"; do
    # shellcheck disable=SC2086
    "$ffinspect" both/train $options >/dev/full 2>err; code=$?
    [ $code -eq 74 ] && grep -q 'standard output: cannot write: No space left' err; result $? "standard output is full: ${options:-summary}"
done
"$ffinspect" both --help >/dev/full 2>err; [ $? -eq 74 ]; result $? "standard output is full: --help"
"$ffinspect" both >&- 2>err; [ $? -eq 74 ]; result $? "standard output is closed"
if [ -w /dev/full ]; then
    refused "--npy to a full device" 74 '/dev/full: cannot write: No space left' both/train --npy /dev/full
    refused "--png to a full device" 74 '/dev/full: cannot write: No space left' both/train --png /dev/full
fi
[ -c /dev/full ]; result $? "a device is written to, not replaced"
echo before >kept.npy
cp -r both bad2 && flip bad2/train/shard-000000.ffs 300000
"$ffinspect" bad2/train --npy kept.npy >/dev/null 2>&1; [ "$(cat kept.npy)" = before ] && [ -z "$(ls kept.npy.* 2>/dev/null)" ]
result $? "a failed --npy leaves the old file, and no temporary one"

# ---- usage
refused "no folder named" 2 'name a packed folder'
refused "two folders" 2 'one too many' both many
refused "no such folder" 74 'nowhere: no such folder$' nowhere
refused "a split that the set lacks" 74 'both/val: no such folder; next to it there are both/test, both/train$' both/val
mkdir whole single && cp both/test/* whole && cp -r both/test single/test
refused "a split of a set without splits" 74 'whole/train: no such folder; whole is a set without splits, name that$' whole/train/
for one in whole single; do
    expect "one split ($one): summary" 0 "^$(test $one = whole && echo whole || echo test): [0-9]+ samples" $one
    expect "... every byte" 0 ': verified: ' $one --verify
    expect "... a sheet" 0 '^one.png: 6 samples in 2 rows of 3' $one --png one.png --grid 2x3
    expect "... a sample" 0 '^sample 0$' $one --sample 0
    expect "... an array" 0 '^one.npy: ' $one --npy one.npy
done
mkdir unfinished.partial empty
refused "a packing that was not finished" 74 'the same ffpack command continues' unfinished
refused "an empty folder" 65 'empty: is not a packed set' empty
refused "a file" 65 'is not a folder' both/train/index.ffx
refused "unknown option" 2 'did you mean --sample' both --sampel 3
refused "--grid without --png" 2 'needs --png' both --grid 2x2
refused "--grid 0x3" 2 'out of range' both --grid 0x3 --png x.png
refused "--grid seven" 2 'rows x columns' both --grid seven --png x.png
refused "--label without --png" 2 'with|--png' both --label label
refused "--label unknown" 2 'it has label' both/train --label fine --png x.png
refused "--sample beyond the end" 2 'there are 60 samples, numbered 0 to 59' both/train --sample 60
refused "--sample backwards" 2 'A < B' both/train --sample 5:4
refused "--sample of several splits" 2 'name one of both/train, both/test' both --sample 0
refused "--npy of several splits" 2 'name one of both/train, both/test' both --npy x.npy
refused "--npy - beside --json" 2 'standard output' both/train --npy - --json
refused "--jobs 0" 2 'out of range' both --jobs 0
refused "--png into a missing folder" 74 'nowhere/x.png: cannot create' both --png nowhere/x.png
refused "--png onto a folder" 74 'is a folder' both --png empty
make huge --count 40 --dtype u8 --channels 1 --height 2 --width 2 --fields ''
expect "a set without labels" 0 'label +none' huge
expect "--help" 0 'Exit codes: 0 done' --help
expect "--version" 0 '^ffinspect [0-9]' --version
finish
exit $failed
