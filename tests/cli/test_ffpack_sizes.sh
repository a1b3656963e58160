#!/bin/bash
# Samples of different sizes (--max-side), squares (--pad-square), reduced JPEGs (--fast-decode):
# through the command line, for any number of jobs, compressed or not. (tests/exact compares the
# values of every geometry with torchvision's.)
. "$(dirname "$0")/ffpack_lib.sh"
ffinspect=${BUILD:-build}/ffinspect
cd "$scratch" || exit 1
make_input folder in_folder 12
# What is compared with Pillow has the installed one's values.
installed=$("$python" -c 'import PIL; print("13" if int(PIL.__version__.split(".")[0]) >= 13 else "12")' 2>/dev/null)
pillow=(--pillow "${installed:-13}") passes=" passes=cheaper_first"
[ "${installed:-13}" = 12 ] && passes=""
# compare NAME ARGUMENT...: check_sizes.py, skipped where its modules are missing
compare() {
    local name=$1; shift
    "$python" "$here/check_sizes.py" "$@" >log 2>&1
    case $? in
    0) ok "$name" ;;
    77) skip "$name" "$(cat log)" ;;
    *) not_ok "$name" log ;;
    esac
}
# lines NAME PACKED WANTED: the transforms recorded, one after the other
lines() {
    local got
    got=$("$ffinspect" --json "$2" | "$python" -c 'import json, sys; print("; ".join(t for t in json.load(sys.stdin)["splits"][0]["transforms"]))' 2>&1)
    case "$got" in "$3"*) ok "$1" ;; *) not_ok "$1"; echo "# $got, wanted $3" ;; esac
}

for jobs in 1 2 7; do
    check "packs sizes up to 50, $jobs jobs" "$ffpack" in_folder -o sizes$jobs --max-side 50 --jobs $jobs --shard-size 60K "${pillow[@]}"
done
check "to the same bytes" diff -rx history.jsonl sizes1 sizes2
check "to the same bytes again" diff -rx history.jsonl sizes1 sizes7
compare "every sample is Pillow's" in_folder sizes1 50
check "every byte verifies" "$ffinspect" --verify sizes1
lines "the bound is recorded" sizes1 "max_side size=50 interpolation=bilinear$passes; to_tensor scale=1/255; normalize "
"$ffpack" in_folder -o shown --max-side 50 >shown.txt
check "the summary reports it" grep -q 'f16 chw up to 3x50x50' shown.txt
for jobs in 1 5; do
    check "packs --resize 30 --max-side 38 as u8, compressed, $jobs jobs" "$ffpack" in_folder -o both$jobs --resize 30 \
        --max-side 38 --dtype u8 --layout hwc --compress zstd --jobs $jobs --shard-size 20K --shuffle 3 "${pillow[@]}"
done
check "to the same bytes" diff -rx history.jsonl both1 both5
compare "every sample is Pillow's" in_folder both1 38 30
check "every byte verifies" "$ffinspect" --verify both1
lines "both are recorded" both1 "resize size=30 max_size=38 interpolation=bilinear$passes; "
check "packs f16, compressed" "$ffpack" in_folder -o table --max-side 50 --compress zstd:1 "${pillow[@]}"
compare "every sample is Pillow's" in_folder table 50

check "packs squares" "$ffpack" in_folder -o squares --pad-square --resize 20
check "packs reduced JPEGs" "$ffpack" in_folder -o fast --fast-decode --resize 9 --center-crop 8
check "packs whole ones" "$ffpack" in_folder -o slow --resize 9 --center-crop 8
lines "padding is recorded" squares 'pad_square; resize size=20 interpolation=bilinear passes=cheaper_first; '
lines "reduction is recorded" fast 'fast_decode; resize size=9 interpolation=bilinear passes=cheaper_first; center_crop size=8x8; '
check "reduced ones have other values" "$python" -c 'import sys
a, b = (open(f"{name}/shard-000000.ffs", "rb").read()[4096:4096 + 60 * 384] for name in ("fast", "slow"))
sys.exit(a == b)'

refuses "--max-side with a crop" 2 '--max-side;--center-crop;wanted only one' in_folder -o place/out --max-side 40 --center-crop 30
refuses "--max-side with an exact resize" 2 '--max-side;--resize HxW;wanted only one' in_folder -o place/out --max-side 40 --resize 30x30
refuses "--max-side not above --resize" 2 '--max-side: 30;--resize 30' in_folder -o place/out --max-side 30 --resize 30
refuses "different sizes name --max-side" 2 'different sizes;--max-side N' in_folder -o place/out
finish
