#!/bin/bash
# ffpack repair: the same index again from the shards alone, or a list of what is lost.
. "$(dirname "$0")/ffpack_lib.sh"
cd "$scratch" || exit 1
inspect=${BUILD:-build}/ffinspect root=$here/../..
make_input folder first 6; make_input idx in_idx 60
cp -r first more; mv more/b/img1.JPG more/b/other.JPG
fixed=(--resize 32 --center-crop 28 --mean 0.5,0.4,0.3 --std 0.25,0.25,0.25 --shard-size 20K)
mkdir bad && cp -r first/* bad && echo text >bad/a/img1.JPG
# flip FILE OFFSET: changes the byte there
flip() { "$python" -c 'import sys; f = open(sys.argv[1], "r+b"); f.seek(int(sys.argv[2])); b = f.read(1)[0]; f.seek(int(sys.argv[2])); f.write(bytes([b ^ 0x55]))' "$@"; }
# restores NAME SET: for every kind of broken index
restores() {
    local name=$1 set=$2 problem="" size offset how
    size=$(stat -c %s "$set/index.ffx")
    for how in gone empty cut longer zeros 0 20 40 4090 4100 4500 $((size / 2)) $((size - 100)); do
        rm -rf broken; cp -r "$set" broken
        case $how in
        gone)
            rm broken/index.ffx
            "$inspect" broken 2>&1 | grep -q 'ffpack repair makes one' || problem="$how: ffinspect does not name repair"
            ;;
        empty) : >broken/index.ffx ;;
        cut) truncate -s -1 broken/index.ffx ;;
        longer) echo >>broken/index.ffx ;;
        zeros) truncate -s 0 broken/index.ffx; truncate -s "$size" broken/index.ffx ;;
        *) flip broken/index.ffx "$how" ;;
        esac
        [ -z "$problem" ] || break
        "$ffpack" repair broken >said 2>&1 || { problem="$how: $(cat said)"; break; }
        grep -q 'broken: rebuilt index.ffx' said || { problem="$how: $(cat said)"; break; }
        diff -rx history.jsonl "$set" broken >said || { problem="$how: $(cat said)"; break; }
    done
    verdict "$problem" "$name"
}
"$ffpack" first -o plain "${fixed[@]}" >/dev/null 2>&1
restores "a plain set" plain
"$ffpack" bad -o odd "${fixed[@]}" --shuffle 3 --compress zstd --on-error skip --max-skip 100% >/dev/null 2>&1
restores "shuffled, compressed, with an item left out" odd
cp -r plain grown; "$ffpack" append --allow-duplicates grown more >/dev/null; "$ffpack" append --allow-duplicates grown first >/dev/null
restores "three generations" grown
for golden in "$root"/tests/golden/v*/*; do
    problem=""
    while read -r index; do
        rm -rf broken; cp -r "$(dirname "$index")" broken; rm broken/index.ffx
        if ! "$ffpack" repair broken >said 2>&1 || ! diff -rx history.jsonl "$(dirname "$index")" broken >>said; then problem=$(cat said); fi
    done < <(find "$golden" -name index.ffx)
    verdict "$problem" "golden ${golden#*golden/}"
done
"$ffpack" in_idx -o two --shard-size 4K >/dev/null; cp -r two two.old
stat -c '%i %Y' two/*/* >before
"$ffpack" repair two >said; stat -c '%i %Y' two/*/* >after
check "a whole set is left alone" test "$(grep -c ': nothing to repair: ' said)" = 2 -a "$(cat before)" = "$(cat after)"
touch two/train/shard-000003.ffs.tmp two/test/index.ffx.tmp two/test/mine.tmp; rm two/test/index.ffx
"$ffpack" repair two >said
check "half-written files are removed, others are not" bash -c 'rm two/test/mine.tmp && diff -rx history.jsonl two two.old && test $(grep -c "removed 1 incomplete files" said) = 2'

# ---- generations that were never committed
"$ffpack" append --allow-duplicates two in_idx >/dev/null; cp -r two two.new
n=$(ls two.old/train/*.ffs | wc -l)
for index in kept gone; do
    rm -rf two; cp -r two.old two; cp "two.new/train/$(printf 'shard-%06d.ffs' "$n")" two/train
    [ $index = kept ] || rm two/train/index.ffx
    "$ffpack" repair two >said
    check "shards of an unfinished append are left alone, index $index" bash -c "cmp two/train/index.ffx two.old/train/index.ffx && grep -q 'two/train: 1 shards are of a later generation that was never committed' said"
done
rm -rf two; cp -r two.new two; cp two.old/train/index.ffx two/train
"$ffpack" repair two >said
check "the index tells which generation counts" cmp two/train/index.ffx two.old/train/index.ffx
rm two/train/index.ffx; "$ffpack" repair two >said
check "without one the newest that is whole" diff -rx history.jsonl two two.new

# ---- losses: every line, and nothing changed
# loses NAME 'PATTERN;PATTERN' DIR: exit 65, the lines on stdout, nothing changed
loses() {
    local name=$1 patterns=$2 dir=$3 problem="" pattern
    rm -rf judged; cp -r "$dir" judged
    "$ffpack" repair "$dir" >said 2>stderr; local code=$?
    [ $code -eq 65 ] || problem="exit code $code"
    [ "$(wc -l <stderr)" -eq 1 ] && grep -q "^ffpack: .*; nothing was changed" stderr || problem="$problem; stderr: $(cat stderr)"
    while [ -n "$patterns" ]; do
        pattern=${patterns%%;*}; if [ "$pattern" = "$patterns" ]; then patterns=""; else patterns=${patterns#*;}; fi
        grep -qF -- "$pattern" said || problem="$problem; no '$pattern' in $(cat said)"
    done
    diff -rx history.jsonl "$dir" judged >/dev/null || problem="$problem; something changed"
    verdict "$problem" "$name"
}
rm -rf lost; cp -r plain lost; rm lost/index.ffx lost/shard-000001.ffs
loses "a missing shard" "lost/shard-000001.ffs is missing: positions;which are items" lost
rm -rf lost; cp -r plain lost; flip lost/shard-000001.ffs 5000
loses "a broken sample" "lost: sample ;key C/img;is broken: lost/shard-000001.ffs: offset" lost
check "  by its number" bash -c "number=\$(sed -n 's/.*: sample \([0-9]*\) (item \([0-9]*\), key \([^)]*\)).*/\1 \2 \3/p' said) && '$inspect' plain --sample \${number%% *} | grep -qF \"\${number##* }\""
rm -rf lost; cp -r plain lost; touch lost/index.ffx.tmp; truncate -s -1 lost/shard-000002.ffs; rm lost/index.ffx
loses "a shard cut short" "lost/shard-000002.ffs is broken: positions" lost
rm -rf lost; cp -r plain lost; flip lost/shard-000000.ffs 100
loses "a broken header" "lost/shard-000000.ffs is broken: positions 0 to" lost
rm -rf lost; cp -r odd lost; rm lost/index.ffx lost/shard-000001.ffs; flip lost/shard-000003.ffs 6000
loses "of a shuffled, compressed set" "lost/shard-000001.ffs is missing: positions;items that no shard holds;a sample (item" lost
rm -rf lost; cp -r two.new lost; rm lost/train/index.ffx lost/train/shard-000000.ffs lost/test/index.ffx
"$ffpack" repair lost >said 2>/dev/null
check "a loss in one split, and the other is repaired" bash -c 'diff -rx history.jsonl lost/test two.new/test && test ! -e lost/train/index.ffx'
rm -rf lost; cp -r two.new lost; rm lost/*/index.ffx lost/*/shard-000000.ffs
"$ffpack" repair lost >said 2>stderr; code=$?
check "losses in both splits end with the first one's" test $code = 65 -a "$(tail -n 1 stderr | grep -c '^ffpack: lost/test: ')" = 1
rm -rf lost; cp -r "$root/tests/broken/metadata-level" lost; : >lost/shard-000000.ffs
refuses "metadata that is unsound, and no whole shard" 65 'lost: no whole shard describes the set' repair lost
rm -rf lost; mkdir -p lost/x; refuses "no set" 65 'lost: holds no shards, and no folder in it does' repair lost
"$ffpack" in_idx -o part --part 1/2 --shard-size 4K >/dev/null
refuses "a part" 65 'is part 1/2 of a set; ffpack merge' repair part/train
refuses "nothing there" 74 'nowhere' repair nowhere
check "while another writes" bash -c "exec 9<plain; flock 9; '$ffpack' repair plain 2>said; test \$? = 2"
check "repair --help" "$ffpack" repair --help
rm -rf lost; cp -r plain lost; rm lost/index.ffx
{ "$ffpack" repair lost 2>said; echo $? >code; } | true
check "a closed pipe is said, and the set is repaired" bash -c 'grep -qx 74 code && grep -q "summary: Broken pipe" said && diff -rx history.jsonl lost plain'
finish
