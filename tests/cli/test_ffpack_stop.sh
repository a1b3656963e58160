#!/bin/bash
# Interrupted packings: signals keep whole shards, the printed command continues, and the result is
# the same bytes as an uninterrupted run.
. "$(dirname "$0")/ffpack_lib.sh"
cd "$scratch" || exit 1
make_input cifar10 in 400
options=(--shard-size 64K --shuffle 3)
"$ffpack" in -o whole "${options[@]}" >/dev/null
# begin NAME: packs in the background and waits until a few shards are whole
begin() {
    "$ffpack" in -o "$1" "${options[@]}" >stdout 2>stderr &
    child=$!
    while kill -0 $child 2>/dev/null && [ ! -e "$1.partial/train/shard-000003.ffs" ]; do sleep 0.005; done
}
for signal in INT TERM; do
    tried=0
    while :; do
        rm -rf out out.partial
        begin out
        kill -$signal $child 2>/dev/null
        wait $child; code=$?
        tried=$((tried + 1))
        # Finished before the signal came: tried again.
        if [ $code -ne 0 ] || [ $tried -eq 20 ]; then break; fi
    done
    check "SIG$signal: exit code" test $code -eq $((128 + $(kill -l $signal)))
    check "SIG$signal: OUT is absent, OUT.partial there" test ! -e out -a -d out.partial
    check "SIG$signal: one sentence" grep -q "^ffpack: stopped by SIG$signal; finished work is kept in out.partial, and this continues: .* in -o out --shard-size 64K --shuffle 3\$" stderr
    check "SIG$signal: no unfinished file" test -z "$(find out.partial -name '*.tmp')"
    "$ffpack" in -o out "${options[@]}" --compress zstd >/dev/null 2>said
    check "SIG$signal: other options are refused" test $? -eq 2
    check "SIG$signal: naming the first difference" grep -q "out.partial/train/shard-000000.ffs: has '.*', wanted '.*'; remove out.partial to start over" said
    check "SIG$signal: the printed command continues" eval "$(sed 's/.*continues: //' stderr)"
    check "SIG$signal: to the same bytes" diff -rx history.jsonl whole out
done
for ((tried = 0; tried < 20; tried++)); do
    rm -rf out out.partial
    "$ffpack" in -o out --shard-size 64M >stdout 2>stderr & child=$!
    while kill -0 $child 2>/dev/null && [ ! -e out.partial/train ]; do :; done
    kill -INT $child 2>/dev/null; wait $child; code=$?
    # A shard was whole before the signal came: tried again.
    if [ $code -ne 0 ] && [ -z "$(find out.partial -name '*.ffs' 2>&1)" ]; then break; fi
done
check "SIGINT before the first shard keeps the statistics" test ! -e out -a "$(cd out.partial && find . -type f)" = ./measured.ffp
check "and reports it" grep -q "; finished work is kept in out.partial, and this continues: .* in -o out --shard-size 64M\$" stderr
rm -rf out out.partial
for try in 1 2 3 4 5; do
    begin out; kill -KILL $child 2>/dev/null; wait $child 2>/dev/null
done
[ -e out ] || "$ffpack" in -o out "${options[@]}" >stdout 2>stderr
check "killed again and again, then continued: the same bytes" diff -rx history.jsonl whole out

# A changed source is refused.
rm -rf out out.partial
begin out; kill -KILL $child 2>/dev/null; wait $child 2>/dev/null
if [ -e out ]; then skip "a changed source is refused" "packing was faster"; else
    cp -r in changed; printf '\x05' | dd of=changed/data_batch_1.bin bs=1 seek=0 conv=notrunc 2>/dev/null
    printf '\x06' | dd of=changed/data_batch_1.bin bs=1 seek=3073 conv=notrunc 2>/dev/null
    "$ffpack" changed -o out "${options[@]}" >/dev/null 2>said
    check "a changed source is refused" test $? -eq 2
    check "another kind of source is refused" bash -c "! '$ffpack' in/data_batch_1.bin -o out 2>said && grep -q 'remove out.partial' said"
    check "--resume continues" "$ffpack" in -o out "${options[@]}" --resume
fi

# The list of left-out images survives an interruption.
make_input same pictures 40
for name in C/img1.JPG a/img2.jpeg b/img7.JPG b/img38.jpeg; do echo broken >pictures/$name; done
options=(--shard-size 16K --mean 0,0,0 --std 1,1,1 --on-error skip --max-skip 100%)
"$ffpack" pictures -o list "${options[@]}" >/dev/null 2>&1
rm -rf out
for try in 1 2 3; do
    "$ffpack" pictures -o out "${options[@]}" >/dev/null 2>&1 & child=$!
    while kill -0 $child 2>/dev/null && [ ! -e "out.partial/shard-00000$((try * 3)).ffs" ]; do sleep 0.002; done
    kill -KILL $child 2>/dev/null; wait $child 2>/dev/null
done
[ -e out ] || "$ffpack" pictures -o out "${options[@]}" >/dev/null 2>&1
check "left-out images: the same bytes" diff -rx history.jsonl list out
check "left-out images: the same list" cmp list.skipped.tsv out.skipped.tsv

# One writer at a time.
if command -v flock >/dev/null; then
    rm -rf out out.skipped.tsv; mkdir out.partial
    flock out.partial "$ffpack" in -o out >stdout 2>stderr
    check "a second writer is refused" test $? -eq 2
    check "with a sentence" grep -q "^ffpack: out.partial: another ffpack is writing there" stderr
else
    skip "a second writer is refused" "no flock command"
fi

# A run that fails before it takes OUT.partial offers no continuation of what an earlier one left.
rm -rf out out.partial; mkdir out.partial
"$ffpack" missing -o out >stdout 2>stderr
check "a missing SOURCE beside an old OUT.partial" test $? -eq 74
check "is not continued" test "$(grep -c continues stderr)" -eq 0
"$ffpack" copy missing -o out >stdout 2>stderr
check "neither is a copy" test $? -ne 0 -a "$(grep -c continues stderr)" -eq 0
finish
