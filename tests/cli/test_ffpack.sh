#!/bin/bash
# What ffpack packs from its sources: splits, keys, order, values, options, summary; the same bytes
# for any number of jobs.
# Needs: ffpack
. "$(dirname "$0")/ffpack_lib.sh"
cd "$scratch" || exit 1
for kind in idx idx_gz cifar10 cifar100 folder same splits; do make_input $kind in_$kind 12; done
fixed=(--resize 32 --center-crop 28 --mean 0.5,0.5,0.5 --std 0.25,0.25,0.25)
# field JSON PYTHON-EXPRESSION: of the summary `s`
field() { "$python" -c 'import json, sys; s = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$1" "$2"; }
# says NAME JSON EXPRESSION WANTED
says() {
    local got; got=$(field "$2" "$3" 2>&1)
    if [ "$got" = "$4" ]; then ok "$1"; else not_ok "$1"; echo "# $3 is $got, wanted $4"; fi
}
summary='[(p["split"], p["samples"], p["channels"], p["height"], p["width"], [len(f["classes"]) for f in p["fields"]]) for p in s["splits"]]'
pack() { local name=$1; shift; "$ffpack" "$@" -o "$name" --json >"$name.json" 2>"$name.err" || { sed 's/^/# /' "$name.err"; return 1; }; }

check "packs IDX" pack idx in_idx
says "IDX: splits, shape" idx.json "$summary" "[('train', 12, 1, 12, 10, [0]), ('test', 3, 1, 12, 10, [0])]"
check "packs IDX from .gz" pack idx_gz in_idx_gz
check "to the same bytes" diff -rx history.jsonl idx idx_gz
check "one IDX file is one split" pack idx_one in_idx_gz/train-images-idx3-ubyte.gz
says "in OUT itself" idx_one.json "$summary" "[('', 12, 1, 12, 10, [0])]"
printf '%s\n' a b c d e f g h i j >ten.classes
check "IDX with --classes" pack idx_named in_idx --classes ten.classes
says "has their names" idx_named.json 's["splits"][1]["fields"][0]["classes"]' "$(field idx_named.json 'list("abcdefghij")')"
check "IDX with --mode rgb" pack idx_rgb in_idx --mode rgb
says "has 3 channels" idx_rgb.json "$summary" "[('train', 12, 3, 12, 10, [0]), ('test', 3, 3, 12, 10, [0])]"

check "packs CIFAR-10" pack cifar10 in_cifar10
says "CIFAR-10: splits, shape, classes" cifar10.json "$summary" "[('train', 60, 3, 32, 32, [10]), ('test', 12, 3, 32, 32, [10])]"
mkdir cifar-10-batches-bin && cp in_cifar10/* cifar-10-batches-bin
tar czf cifar.tar.gz cifar-10-batches-bin/test_batch.bin cifar-10-batches-bin/data_batch_[54321].bin cifar-10-batches-bin/batches.meta.txt
tar cf cifar.tar cifar-10-batches-bin
check "packs CIFAR-10 from .tar.gz" pack cifar10_gz cifar.tar.gz
check "to the same bytes" diff -rx history.jsonl cifar10 cifar10_gz
check "packs CIFAR-10 from .tar" pack cifar10_tar cifar.tar
check "to the same bytes" diff -rx history.jsonl cifar10 cifar10_tar
mkdir above && mv cifar-10-batches-bin above
check "packs CIFAR-10 from the folder above" pack cifar10_above above
check "to the same bytes" diff -rx history.jsonl cifar10 cifar10_above
check "packs one file of CIFAR-10" pack cifar10_one in_cifar10/data_batch_2.bin
says "as one split with the names next to it" cifar10_one.json "$summary" "[('', 12, 3, 32, 32, [10])]"
check "packs CIFAR-100" pack cifar100 in_cifar100
says "CIFAR-100: fine, then coarse" cifar100.json '[(f["name"], len(f["classes"])) for f in s["splits"][0]["fields"]]' "[('fine', 100), ('coarse', 20)]"
check "CIFAR-10 with --mode gray" pack cifar10_gray in_cifar10 --mode gray
says "has 1 channel" cifar10_gray.json 's["splits"][0]["channels"]' 1

check "packs a folder" pack folder in_folder "${fixed[@]}" --dtype f32
says "folder: shape, classes sorted by bytes" folder.json 's["splits"][0]["fields"][0]["classes"]' "['C', 'a', 'a.x', 'b']"
"$python" "$here/check_folder.py" in_folder folder >log 2>&1
case $? in
0) ok "order, keys, labels and values are torchvision's" ;;
77) skip "order, keys, labels and values are torchvision's" "$(tail -n 1 log)" ;;
*) not_ok "order, keys, labels and values are torchvision's" log ;;
esac
# One rotated image that is truncated.
mkdir -p in_odd/a && "$python" -c 'if True:
    from PIL import Image
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (40, 24)).save("whole.jpg", exif=exif.tobytes())
    data = open("whole.jpg", "rb").read()
    open("in_odd/a/cut.jpg", "wb").write(data[:-9])'
refuses "an image without its end" 65 "cut.jpg;truncated JPEG;--on-error skip;ffpack check" in_odd -o "$scratch/place/out"
check "packs it with --allow-truncated" pack odd_cut in_odd --allow-truncated
says "as it lies" odd_cut.json "$summary" "[('', 1, 3, 24, 40, [1])]"
check "packs it with --allow-truncated --exif" pack odd_turned in_odd --allow-truncated --exif
says "upright" odd_turned.json "$summary" "[('', 1, 3, 40, 24, [1])]"
check "and its transforms report it" grep -qa '^transform exif_transpose$' odd_turned/index.ffx
check "and its provenance" grep -qa -e 'option --allow-truncated$' odd_turned/index.ffx
check "reports what was filled, once" grep -qE '^ffpack: .*a/cut.jpg: truncated JPEG, filled as Pillow fills it: its [0-9]+ bytes end after [0-9]+ of 24 rows$' odd_cut.err
check "and nothing of a complete one" test "$(grep -c complete odd_cut.err)" = 0
check "the summary counts it" sh -c '"$1" in_odd -o summed --allow-truncated 2>/dev/null | grep -q "^  1 image.* odd or cut off"' - "$ffpack"
check "--help reports what a PNG's checksum does" sh -c '"$1" --help | tr -s " \n" " " | grep -q "PNGs whose pixels have a wrong checksum, which is refused else"' - "$ffpack"
check "packs a folder of splits" pack splits in_splits
says "train first" splits.json "$summary" "[('train', 60, 3, 16, 20, [4]), ('val', 60, 3, 16, 20, [4])]"
check "packs images of one size without --resize" pack same in_same

# ---- values
cat >values.py <<'EOF'
import json, struct, sys
import numpy as np
raw = np.frombuffer(open("in_cifar10/data_batch_1.bin", "rb").read(), np.uint8).reshape(-1, 3073)
kind, layout, align = sys.argv[1], sys.argv[2], int(sys.argv[3])
shard = open("out/train/shard-000000.ffs", "rb").read()
s = json.load(open("out.json"))
f = np.float32
x = raw[:, 1:].reshape(-1, 3, 32, 32)
mean, std = (np.array(s[k], f).reshape(1, 3, 1, 1) for k in ("mean", "std"))
y = (x.astype(f) / f(255) - mean) / std
if layout == "hwc": x, y = x.transpose(0, 2, 3, 1), y.transpose(0, 2, 3, 1)
if kind == "u8": want = x
elif kind == "f32": want = y
elif kind == "f16": want = y.astype(np.float16)
else:
    b = np.ascontiguousarray(y).view(np.uint32)
    want = ((b + 0x7fff + ((b >> 16) & 1)) >> 16).astype(np.uint16)
want = np.ascontiguousarray(want).reshape(len(x), -1).view(np.uint8)
stride = (want.shape[1] + align - 1) // align * align
got = np.frombuffer(shard, np.uint8, stride * len(x), 4096).reshape(len(x), stride)
assert (got[:, : want.shape[1]] == want).all(), "values differ"
assert not got[:, want.shape[1] :].any(), "padding is not zero"
EOF
for options in "f16 chw 64" "f32 chw 64" "bf16 hwc 64" "u8 chw 64" "u8 hwc 4096" "f16 hwc 4096"; do
    read -r dtype layout align <<<"$options"
    check "packs $dtype $layout align $align" pack out in_cifar10 --dtype "$dtype" --layout "$layout" --align "$align" --force
    # shellcheck disable=SC2086
    check "values of $dtype $layout align $align" "$python" values.py $options
done

# ---- statistics
check "--stats-from a set" pack from in_idx_gz/t10k-images-idx3-ubyte.gz --stats-from idx
says "takes its mean" from.json 's["mean"]' "$(field idx.json 's["mean"]')"
same_ids=$(field idx.json 's["splits"][0]["transform_id"]')
says "and has its transform id" from.json 's["splits"][0]["transform_id"]' "$same_ids"
check "u8" pack idx_u8 in_idx --dtype u8
says "has the same transform id as f16" idx_u8.json 's["splits"][0]["transform_id"]' "$same_ids"
says "mean is exact" idx.json 's["mean"] == [float(__import__("numpy").float32(__import__("numpy").fromfile("in_idx/train-images-idx3-ubyte", "u1")[16:].mean() / 255))]' True

# ---- the same bytes for any number of jobs
for options in "" "--compress zstd:1" "--shuffle 7" "--dtype u8 --compress zstd --shuffle 1" "--shard-size 20K"; do
    # shellcheck disable=SC2086
    for jobs in 1 2 5; do
        "$ffpack" in_folder -o jobs$jobs --jobs $jobs "${fixed[@]}" $options --force >/dev/null 2>log || { cat log; break; }
    done
    check "1 and 2 jobs ${options:+with $options}" diff -rx history.jsonl jobs1 jobs2
    check "1 and 5 jobs ${options:+with $options}" diff -rx history.jsonl jobs1 jobs5
done
check "shuffled once" pack shuffled1 in_idx --shuffle 1
check "shuffled otherwise" pack shuffled2 in_idx --shuffle 2
if cmp -s shuffled1/train/shard-000000.ffs shuffled2/train/shard-000000.ffs; then not_ok "another seed gives another order"; else ok "another seed gives another order"; fi

# ---- leaving bad images out
cp -r in_folder mixed; echo text >mixed/a/img1.JPG; truncate -s 300 mixed/b/img4.JPG; ln -s nowhere mixed/C/img99.png
check "--on-error skip" pack skipped mixed --on-error skip --max-skip 100% "${fixed[@]}"
says "packs the others" skipped.json 's["splits"][0]["samples"]' 58
says "and counts all" skipped.json 's["splits"][0]["items"]' 61
check "names each on stderr" test "$(grep -c 'left out: mixed/' skipped.err)" = 3
check "and in OUT.skipped.tsv" test "$(cut -f 4 skipped.skipped.tsv | tr '\n' ' ')" = "name mixed/C/img99.png mixed/a/img1.JPG mixed/b/img4.JPG "
"$ffpack" mixed -o skipped1 --jobs 1 --on-error skip --max-skip 100% "${fixed[@]}" --force >/dev/null 2>&1
"$ffpack" mixed -o skipped5 --jobs 5 --on-error skip --max-skip 100% "${fixed[@]}" --force >/dev/null 2>&1
check "the same bytes for 1 and 5 jobs" diff -rx history.jsonl skipped1 skipped5
check "statistics leave them out too" pack skipped_stats mixed --on-error skip --max-skip 100% --resize 32x32
rm -r mixed; cp -r in_folder mixed; rm mixed/a/img1.JPG mixed/b/img4.JPG
check "without the bad ones" pack without mixed --resize 32x32
says "the statistics are the same" skipped_stats.json 's["mean"]' "$(field without.json 's["mean"]')"

# ---- other options
check "--dry-run writes nothing" pack dry in_cifar10 --dry-run
check "neither OUT nor OUT.partial" test ! -e dry -a ! -e dry.partial
says "and reports what would be" dry.json "(s['event'], $summary, s['splits'][0]['shards'])" "('would_pack', [('train', 60, 3, 32, 32, [10]), ('test', 12, 3, 32, 32, [10])], 1)"
check "--dry-run needs no -o" "$ffpack" in_folder --dry-run --resize 32x32
check "--force replaces a set" pack same in_same --force --dtype f32
says "with the new one" same.json 's["splits"][0]["dtype"]' f32
check "and leaves nothing else" test ! -e same.partial -a ! -e same.replaced
check "several shards" pack shards in_cifar10 --shard-size 64K
says "are counted" shards.json 's["splits"][0]["shards"]' "$(ls shards/train/*.ffs | wc -l)"
"$ffpack" in_cifar10 -o told --json --progress json >told.lines 2>told.err
tail -1 told.lines >told.json
says "--progress json ends with the summary" told.json 's["event"]' packed
grep '"event":"progress"' told.lines | head -1 >told.json
says "and begins with the first pass" told.json 's' "{'event': 'progress', 'what': 'measuring train', 'unit': 'items', 'done': 0, 'total': 60}"
grep '"what":"packing test"' told.lines | head -1 >told.json
says "each split is told" told.json 's["total"]' 12
progress="[line for line in map(__import__('json').loads, open('told.lines')) if line['event'] == 'progress']"
says "each ends with all that was to be done" told.json \
    "sorted({line['what']: (line['done'], line['total']) for line in $progress}.items())" \
    "[('measuring train', (60, 60)), ('packing test', (12, 12)), ('packing train', (60, 60))]"
"$ffpack" in_cifar10 -o told-u8 --json --progress json --dtype u8 >told.lines 2>told.err
says "a pass that counts, too" told.json \
    "[(line['what'], line['done']) for line in $progress if line['done'] == line['total'] or not line['total']]" \
    "[('packing train', 60), ('packing test', 12)]"
"$ffpack" in_cifar10 -o told-some --json --progress json --stats-sample 10 >told.lines 2>told.err
tail -1 told.lines >told.json
says "--stats-sample 10 reads 10 items and counts to 10" told.json \
    "(s['statistics_items'], max(line['done'] for line in $progress if line['what'] == 'measuring train'))" "(10, 10)"
check "stderr stays empty" test ! -s told.err
check "--help" "$ffpack" --help
check "--version" "$ffpack" --version
"$ffpack" in_idx -o text >stdout
check "the summary for people" grep -q '^train: 12 items, f16 chw 1x12x10, 1 shard, .* in text/train$' stdout
finish
