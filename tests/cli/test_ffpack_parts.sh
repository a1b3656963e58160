#!/bin/bash
# --part I/N and ffpack merge: the bytes of one run for every N, without copying samples.
. "$(dirname "$0")/ffpack_lib.sh"
cd "$scratch" || exit 1
inspect=${BUILD:-build}/ffinspect
make_input idx in_idx 60
make_input folder in_folder 8
cp -r in_folder mixed; echo text >mixed/a/img1.JPG; truncate -s 300 mixed/b/img4.JPG; ln -s nowhere mixed/C/img99.png
# parts NAME N SOURCE OPTION...: NAME.1 .. NAME.N
parts() {
    local name=$1 n=$2 i; shift 2
    for ((i = 1; i <= n; i++)); do
        rm -rf "$name.$i"
        "$ffpack" "$@" -o "$name.$i" --part "$i/$n" --jobs $((i % 3 + 1)) >/dev/null 2>>parts.log || return 1
    done
}
fixed=(--resize 32 --center-crop 28 --mean 0.5,0.5,0.5 --std 0.25,0.25,0.25)
# same NAME SOURCE OPTION...: for several N, in odd orders, the merged set is the whole one
same() {
    local name=$1 n i order problem=""; shift
    rm -rf whole whole.skipped.tsv; "$ffpack" "$@" -o whole >/dev/null 2>&1 || problem="packing failed"
    for n in 1 2 3 5 17; do
        rm -rf p.* m m.skipped.tsv
        parts p $n "$@" || { problem="part of $n: $(tail -n 1 parts.log)"; break; }
        order=$(for ((i = 1; i <= n; i++)); do echo p.$i; done | sort -R --random-source=<(yes $n))
        # shellcheck disable=SC2086
        "$ffpack" merge m $order >log 2>&1 || { problem="merge of $n: $(cat log)"; break; }
        diff -rx history.jsonl whole m >log 2>&1 || { problem="$n: $(head -n 3 log)"; break; }
        [ -e whole.skipped.tsv ] && ! cmp whole.skipped.tsv m.skipped.tsv && { problem="$n: other lists of left-out items"; break; }
        [ -e m.skipped.tsv ] && ! [ -e whole.skipped.tsv ] && { problem="$n: a list too many"; break; }
    done
    verdict "$problem" "$name"
}
same "two splits in 1, 2, 3, 5 and 17 parts" in_idx --shard-size 4K
same "an image folder" in_folder --shard-size 20K "${fixed[@]}"
same "with items left out" mixed --shard-size 20K --on-error skip --max-skip 100% "${fixed[@]}"
check "which were 3" test "$(wc -l <whole.skipped.tsv)" = 4
same "shuffled, compressed, with items left out" mixed --shard-size 20K --on-error skip --max-skip 100% --shuffle 5 --compress zstd "${fixed[@]}"
same "samples of different sizes" mixed --shard-size 20K --on-error skip --max-skip 100% --max-side 48 --compress zstd:2 --mean 0.5,0.5,0.5 --std 0.25,0.25,0.25
same "measured statistics" mixed --shard-size 20K --on-error skip --max-skip 100% --resize 32x32 --dtype u8
same "one shard" in_idx

rm -rf p.*; parts p 3 in_idx --shard-size 4K
rm -rf m; "$ffpack" merge m p.2 p.3 p.1 >said 2>&1
links=$(stat -c %h m/*/shard-*.ffs | sort -u) inodes=$(stat -c %i m/*/shard-*.ffs | sort) theirs=$(stat -c %i p.*/*/shard-*.ffs | sort)
check "merging links every shard" test "$links" = 2 -a "$inodes" = "$theirs"
check "and reports it" grep -qx '.* shards linked, 0 copied' said
if [ "$(stat -c %d .)" != "$(stat -c %d /dev/shm 2>/dev/null)" ] && away=$(mktemp -d /dev/shm/ffmerge.XXXXXX); then
    "$ffpack" merge "$away/m" p.2 p.3 p.1 >said 2>&1
    check "to another file system they are copied" diff -rx history.jsonl m "$away/m"
    check "which it says" grep -q 'cannot be linked to .* so shards are copied' said
    rm -r "$away"
else
    skip "to another file system they are copied" "there is no other one"
fi
parts q 3 in_idx --shard-size 4K; cp -r q.2 p.copy2
check "a part is continued" bash -c "cp -r q.3 r.3.partial && rm r.3.partial/test/part.ffp r.3.partial/train/part.ffp r.3.partial/train/shard-000003.ffs && '$ffpack' in_idx -o r.3 --shard-size 4K --part 3/3 --resume && diff -rx history.jsonl q.3 r.3"
merge_refuses() { local name=$1; shift; refuses "$name" "$@"; check "  and makes nothing" test ! -e out -a ! -e out.partial; }
merge_refuses "a part too few" 2 'train/shard-000001.ffs is not in any of the parts: --part 2/3 would have it' merge out q.1 q.3
parts w 4 in_idx --shard-size 4K
merge_refuses "the last shard alone is missing" 2 'train/shard-000003.ffs is not in any of the parts: --part 4/4 would have it' merge out w.1 w.2 w.3
merge_refuses "a part twice" 2 'q.2 and p.copy2 both hold shard 1 of train' merge out q.1 q.2 p.copy2 q.3
merge_refuses "a whole set" 2 'm: is not a part of a set: it is whole' merge out m
merge_refuses "something else" 2 'in_idx: is not a part of a set' merge out q.1 in_idx
merge_refuses "one split of a part" 2 'q.1/train: is the split train of a part' merge out q.1/train q.2 q.3
merge_refuses "nothing" 2 'wanted ffpack merge OUT PART...' merge out
parts u 3 in_idx --shard-size 4K --mean 0.5 --std 0.25
merge_refuses "parts of other options" 2 'u.2 and q.1 are parts of different sets;mean ' merge out q.1 u.2 q.3
cp -r in_idx other; images=$(ls other/*train*images*)
printf '\377' | dd of="$images" bs=1 seek=$(($(stat -c %s "$images") - 1)) conv=notrunc 2>/dev/null
parts o 3 other --shard-size 4K --mean 0.5 --std 0.25
mkdir -p out.partial/train; cp o.3/train/shard-000003.ffs out.partial/train
check "a shard of the same size, with other samples," test "$(stat -c %s o.3/train/shard-000003.ffs)" = "$(stat -c %s u.3/train/shard-000003.ffs)"
refuses "  left where a merge continues" 2 'out.partial/train/shard-000003.ffs: left by another run' merge out u.1 u.2 u.3
rm -r out.partial
mv q.2/train/shard-000001.ffs kept
merge_refuses "a missing shard" 65 'q.2/train/shard-000001.ffs: is missing; pack --part 2/3 again' merge out q.1 q.2 q.3
cp u.2/train/shard-000001.ffs q.2/train 2>/dev/null
merge_refuses "a shard of another set" 65 'q.2/train/shard-000001.ffs: is of another set' merge out q.1 q.2 q.3
cp kept q.2/train/shard-000001.ffs; truncate -s -1 q.2/train/shard-000001.ffs
merge_refuses "a shard cut short" 65 'q.2/train/shard-000001.ffs' merge out q.1 q.2 q.3
mv kept q.2/train/shard-000001.ffs; sed -i 's/of=3/of=4/' q.1/train/part.ffp
merge_refuses "a broken part.ffp" 65 'q.1/train/part.ffp: is broken' merge out q.1 q.2 q.3
parts q 1 in_idx --shard-size 4K
merge_refuses "an OUT that exists" 2 'm: exists already;--force' merge m q.1
check "--force replaces it" "$ffpack" merge m q.1 --force
for part in 0/3 4/3 1 1/ /1 a/b 1/3x -1/2 1/99999999; do refuses "--part $part" 2 "--part: '$part' is unknown" in_idx -o place/out --part="$part"; done
"$inspect" q.1/train 2>said; check "ffinspect reports what a part is" grep -q 'q.1/train: is part 1/1 of a set; ffpack merge' said
parts e 9 in_idx
"$inspect" e.1 >/dev/null 2>said; "$inspect" e.1/train 2>>said; check "also without a shard" test "$(grep -c 'e.1/.*is part 1/9 of a set' said)" -ge 1
"${BUILD:-build}/fftrain" --data q.1/train --model smallnet 2>said; check "and so does fftrain" grep -q 'q.1/train: is part 1/1 of a set' said
cp -r e.9 v.partial
refuses "a part is not continued as another" 2 'an earlier run with other options;part.ffp' in_idx -o v
check "merge --help" "$ffpack" merge --help
finish
