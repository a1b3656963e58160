#!/bin/bash
# ffpack append: a new generation after the old one, with the set's own options; interrupted ones
# continue.
. "$(dirname "$0")/ffpack_lib.sh"
cd "$scratch" || exit 1
build=${BUILD:-build} inspect=${BUILD:-build}/ffinspect dump=${BUILD:-build}/tests/dump_set
root=$here/../..
again=--allow-duplicates # many of these sources share items
make_input folder first 6; make_input idx in_idx 40; make_input cifar10 in_cifar 4
cp -r first more; rm -r more/a more/a.x; mv more/b/img1.JPG more/b/other.JPG
fixed=(--resize 32 --center-crop 28 --mean 0.5,0.4,0.3 --std 0.25,0.25,0.25 --shard-size 20K)
# samples SPLIT FIELDS: of every sample, sorted by number
samples() { "$dump" "$1" | "$python" -c '
import json, sys
for line in map(json.loads, sys.stdin):
    if line["line"] == "sample": print(*[line[k] for k in sys.argv[1].split(",")])' "$2"; }
cat >compare.py <<'E2'
# compare.py OLD NEW ALONE: NEW's samples are OLD's, then ALONE's with classes by name
import json, subprocess, sys
dump = sys.argv[1]
def read(path):
    lines = [json.loads(x) for x in subprocess.run([dump, path], capture_output=True, check=True).stdout.splitlines()]
    return lines[0], [x for x in lines if x["line"] == "sample"]
(_, old), (head, new), (own, alone) = map(read, sys.argv[2:5])
keys = ("key", "source", "checksum", "height", "width", "tensor_crc32")
assert len(new) == len(old) + len(alone), (len(new), len(old), len(alone))
for i, (a, b) in enumerate(zip(old + alone, new)):
    assert b["number"] == i and all(a[k] == b[k] for k in keys), (i, a, b)
assert [x["labels"] for x in old] == [x["labels"] for x in new[:len(old)]]
names, theirs = head["fields"][0]["classes"], own["fields"][0]["classes"]
value = lambda x: int.from_bytes(bytes.fromhex(x["labels"][0]), "little", signed=True)
for a, b in zip(alone, new[len(old):]):
    assert (names[value(b)] == theirs[value(a)]) if theirs else value(a) == value(b), (a, b)
items = [x["item"] for x in new]
assert items == sorted(set(items)), items
E2
# appends NAME FIRST MORE OPTION...: MORE after FIRST, checked by both readers and against MORE alone
appends() {
    local name=$1 one=$2 two=$3; shift 3
    rm -rf set old alone
    { "$ffpack" "$one" -o set "$@" && cp -r set old && cp -r set jobs && "$ffpack" "$two" -o alone "$@"; } >/dev/null 2>log2 || { not_ok "$name"; cat log2; return; }
    ls -i set/shard-*.ffs >before
    check "$name" "$ffpack" append set $again "$two" --jobs 3
    check "  old shards are untouched" bash -c 'ls -i $(sed "s/.* //" before) | diff before -'
    check "  old samples, then the new ones, classes by name" "$python" compare.py "$dump" old set alone
    check "  every byte is right" "$inspect" set --verify
    check "  the second reader agrees" "$python" "$root/tests/second_reader.py" set
    "$ffpack" append jobs $again "$two" --jobs 1 >/dev/null 2>&1
    check "  the same bytes with one job" diff -rx history.jsonl set jobs
    rm -rf jobs
}
appends "a folder with fewer classes" first more "${fixed[@]}"
check "  its classes are found by name" test "$(samples set labels | tail -n 1)" = "['03000000']"
appends "shuffled and compressed" first more "${fixed[@]}" --shuffle 3 --compress zstd:1 --dtype bf16 --layout hwc
appends "u8, aligned" first more "${fixed[@]}" --dtype u8 --align 4096 --compress zstd
appends "samples of different sizes" first more --max-side 48 --pad-square --mean 0.5,0.4,0.3 --std 0.25,0.25,0.25 --shard-size 40K
appends "a short side, and at most a long one" first more --resize 30 --max-side 38 --mean 0.5,0.4,0.3 --std 0.25,0.25,0.25 --shard-size 40K
appends "gray, exact size" first more --resize 20x30 --interpolation bicubic --mode gray --mean 0.5 --std 0.5 --shard-size 20K
appends "Pillow 12's values" first more "${fixed[@]}" --pillow 12
check "  the order of the passes is not that of 13" bash -c "! '$inspect' set | grep -q passes="
check "  the Pillow is recorded" bash -c "'$inspect' set | grep -q 'pillow: 12'"
refuses "Pillow 13's after them" 2 "appended samples must be like the set's;interpolation=bilinear;interpolation=bilinear%20passes=cheaper_first" append set more --pillow 13
mkdir -p plain/a plain/b && "$python" - <<'E2'
from PIL import Image
for c in "ab":
    for i in range(3):
        Image.new("RGB", (8, 8), (i * 20, ord(c), 3)).save("plain/%s/%d.bmp" % (c, i))
E2
plain=(--mean 0.5,0.4,0.3 --std 0.25,0.25,0.25)
for one in 12 13; do
    rm -rf set; "$ffpack" plain -o set "${plain[@]}" --pillow $one >/dev/null
    refuses "the other Pillow's decoding after that of $one, without a resize" 2 "has the values of Pillow $one; leave out --pillow" append set $again plain --pillow $((25 - one))
    check "  the same one's" "$ffpack" append set $again plain --pillow $one
    check "  the set's own" "$ffpack" append set $again plain
    check "  is the set's" test "$("$inspect" set | grep -c "pillow: $one")" = 3
done
appends "a short side and a crop" first more "${fixed[@]}"
check "  the order of the passes and the Pillow are recorded" bash -c "'$inspect' set | grep -q 'passes=cheaper_first' && '$inspect' set | grep -q 'pillow: 13'"
check "a third generation" "$ffpack" append set $again first
check "is right too" "$inspect" set --verify
cp -r in_idx in_idx2
check "two splits" bash -c "'$ffpack' in_idx -o two --shard-size 4K && cp -r two two.old && '$ffpack' append two $again in_idx2"
check "are right" "$inspect" two --verify
check "one split of them" "$ffpack" append two/train $again in_idx/train-images-idx3-ubyte
check "is right" "$inspect" two --verify
check "--json" bash -c "'$ffpack' append two/train $again in_idx/train-images-idx3-ubyte --json | '$python' -c 'import json, sys; s = json.load(sys.stdin); assert s[\"event\"] == \"appended\" and s[\"splits\"][0][\"items\"] == 40, s'"

# ---- left-out items
cp -r more bad; echo text >bad/b/img0.png
"$ffpack" first -o set2 "${fixed[@]}" >/dev/null 2>&1
refuses "a bad image" 65 'bad/b/img0.png' append set2 $again bad
check "  the set is unchanged" "$inspect" set2 --verify
check "is left out with --on-error skip" "$ffpack" append set2 $again bad --on-error skip --max-skip 100%
check "  and listed by its number in the set" bash -c "cut -f 2-4 set2.skipped.tsv | grep -qx '$(printf '36\t36\tbad/b/img0.png')'"
check "  the rest is there" "$inspect" set2 --verify

# ---- new classes come after the old ones
mkdir -p new0/b new0/Z new0/aa; cp first/b/img0.png new0/Z/1.png; cp first/b/img1.JPG new0/b/2.png; cp first/b/img1.JPG new0/aa/3.png
"$ffpack" first -o wider "${fixed[@]}" >/dev/null 2>&1; cp -r wider wider.old; "$ffpack" new0 -o alone0 "${fixed[@]}" >/dev/null 2>&1
check "new classes are added" bash -c "'$ffpack' append wider new0 --new-classes >said"
had=$("$dump" wider.old | head -n 1 | "$python" -c 'import json, sys; print(len(json.load(sys.stdin)["fields"][0]["classes"]))')
check "  the summary names them" grep -q "wider: class $had of label is new: Z" said
check "  they come after the others, whose numbers stay" "$python" compare.py "$dump" wider.old wider alone0
check "  every byte is right" "$inspect" wider --verify
check "  the second reader agrees" "$python" "$root/tests/second_reader.py" wider
check "  no name changed" bash -c "'$dump' wider | head -n 1 >now; '$dump' wider.old | head -n 1 >then; '$python' -c 'import json
a, b = (json.load(open(f))[\"fields\"][0][\"classes\"] for f in (\"then\", \"now\")); assert b[:len(a)] == a and len(b) == len(a) + 2, (a, b)'"
cp wider/index.ffx index.was; rm wider/index.ffx
check "  a lost index is rebuilt" bash -c "'$ffpack' repair wider && cmp wider/index.ffx index.was"
check "a third generation knows them" "$ffpack" append wider new0 $again
check "is right, too" "$inspect" wider --verify
mkdir -p parts2/train/a parts2/train/b parts2/val/a parts2/val/b new2/train/c new2/val/c
for f in train/a train/b val/a val/b; do cp first/b/img0.png parts2/$f/1.png; done; cp first/b/img1.JPG new2/train/c/3.png; cp first/b/img1.JPG new2/val/c/4.png
"$ffpack" parts2 -o both "${fixed[@]}" >/dev/null 2>&1
refuses "a new class of one split alone" 2 "--new-classes: both/train would have a class 'c' that the other splits of both;lack;--add-class" append both/train new2/train --new-classes
check "of all splits together" "$ffpack" append both new2 --new-classes
check "both splits have it" test "$("$inspect" both | grep -c 'one of 3 classes')" = 2
check "are right" "$inspect" both --verify

# ---- refusals: the set stays
"$ffpack" first -o keep "${fixed[@]}" >/dev/null 2>&1; cp -r keep keep.old
mkdir -p new/d && cp first/b/img0.png new/d
refuses "a class that the set lacks" 2 "keep: has no class 'd' in its field;--new-classes adds it" append keep new
refuses "another dtype" 2 "appended samples must be like the set's: keep: has 'sample dtype=f16;wanted 'sample dtype=u8" append keep more --dtype u8
refuses "another size" 2 "keep: has;height=28;wanted;height=24" append keep more --center-crop 24
refuses "another resize" 2 "size=32;size=33" append keep more --resize 33
refuses "other statistics" 2 "keep: has 'mean;wanted 'mean" append keep more --mean 0.5,0.5,0.5 --std 0.25,0.25,0.25
refuses "measured statistics" 2 '--stats: an append uses the statistics of keep' append keep more --stats compute
refuses "compression" 2 "keep: has;wanted" append keep more --compress zstd
refuses "another kind of source" 2 'field label has no class names, and keep has some; wanted the same ones: --classes-from keep' append keep in_idx/train-images-idx3-ubyte --mode rgb
refuses "a source of two splits" 2 'in_idx: has the split train, which keep lacks' append keep in_idx --mode rgb
refuses "no source" 2 'wanted ffpack append OUT SOURCE' append keep
refuses "no set" 65 'first: is not a packed dataset' append first more
refuses "nothing there" 74 'nowhere' append nowhere more
check "nothing of these changed the set" diff -r keep keep.old
"$ffpack" first -o level "${fixed[@]}" --compress zstd:1 >/dev/null 2>&1
refuses "another level of compression" 2 "level: has;level=1;wanted;level=3" append level more --compress zstd:3
check "one who shares the folder is a writer, too" bash -c "exec 9<keep; flock -s 9; '$ffpack' append keep $again more 2>said; test \$? = 2"
check "another writer is refused" bash -c "exec 9<keep; flock 9; '$ffpack' append keep $again more 2>said; test \$? = 2 && grep -q 'keep: another ffpack is writing there' said"

# ---- what an interrupted append left
"$ffpack" append keep $again more >/dev/null; cp -r keep whole
n=$(ls keep.old/shard-*.ffs | wc -l); total=$(ls whole/shard-*.ffs | wc -l)
check "there are several new shards" test $((total - n)) -ge 2
rm -rf keep; cp -r keep.old keep; next=$(printf 'shard-%06d.ffs' "$n"); cp "whole/$next" keep; echo torn >"keep/$(printf 'shard-%06d.ffs' $((n + 1))).tmp"
cp -p "keep/$next" kept; stat -c %i "keep/$next" >inode
check "the old generation stays valid" "$inspect" keep --verify
check "the same append continues" "$ffpack" append keep $again more
check "  to the same bytes" diff -rx history.jsonl keep whole
check "  with the shard that was there" test "$(cat inode)" = "$(stat -c %i "keep/$next")"
rm -rf keep; cp -r keep.old keep; cp "whole/$next" keep
"$ffpack" append keep $again first >/dev/null 2>said
check "another append removes it" grep -q 'keep: removed 1 shards of another append that was never finished' said
check "  and is right" "$inspect" keep --verify
rm -rf keep; cp -r keep.old keep; "$ffpack" append keep $again first >/dev/null; mv keep other; cp -r keep.old keep; "$ffpack" append keep $again first >/dev/null
check "  and has the bytes of one without it" diff -rx history.jsonl keep other
# a set of two splits whose first index was written already
rm -rf two; cp -r two.old two; "$ffpack" append two $again in_idx >/dev/null; cp -r two two.whole
cp two.old/test/index.ffx two/test/index.ffx
"$ffpack" append two $again in_idx >/dev/null 2>said
check "a set whose first split was done is continued" grep -q 'two/train: has these items from the append that was interrupted' said
check "  to the same bytes" diff -rx history.jsonl two two.whole
check "and then the same items may come again" "$ffpack" append two $again in_idx
check "  in both splits" bash -c "'$inspect' two --json | grep -q . && test \$(ls two/train/*.ffs | wc -l) -gt \$(ls two.whole/train/*.ffs | wc -l)"
# ---- the same items again
"$ffpack" first -o once "${fixed[@]}" >/dev/null 2>&1; cp -r once once.old
mkdir -p fresh/b; cp first/b/img0.png fresh/b/zz.png; cp first/b/img1.JPG fresh/b/img0.png
refuses "the same folder" 2 "is in the set already, under this name and with the same bytes; --allow-duplicates" append once first
check "  changes nothing" diff -r once once.old
check "the same name with other bytes, and the same bytes under another name, are new" "$ffpack" append once fresh
refuses "what an append added is known, too" 2 "fresh/b/;is in the set already" append once fresh
for at in sp/train/b sw/val/b; do mkdir -p $at; cp first/b/img0.png $at; done; for at in sp/val/b sw/train/b; do mkdir -p $at; cp first/b/img1.JPG $at; done
"$ffpack" sp -o swapped "${fixed[@]}" >/dev/null
refuses "what the set has in another split" 2 "is in the set already" append swapped sw
# ---- the summary cannot be printed: the items are there, and nothing advises to add them again
for to in '| true' '>/dev/full' '>&-'; do
    rm -rf once; cp -r once.old once
    bash -c "set -o pipefail; trap '' PIPE; { '$ffpack' append once fresh 2>said; echo \$? >code; } $to"
    check "stdout $to: exit 74" test "$(cat code)" = 74
    check "  and the items were appended" test "$("$dump" once | grep -c '"line":"sample"\|"line": "sample"')" -gt "$("$dump" once.old | grep -c '"line":"sample"\|"line": "sample"')"
    check "  which it says" bash -c "grep -q 'the items were appended' said && ! grep -q 'unchanged\|continues' said"
done
check "append --help" "$ffpack" append --help
finish
