# What another processor must do with the same bits: sources to pack, the sets, batches and losses made of them, and
# their comparison. Sourced after tap.sh by the tests that run programs under an emulator.
# shellcheck shell=bash disable=SC2154
# processor_sources FOLDER: photographs of several kinds and sizes in three classes, a few records of CIFAR-10.
processor_sources() {
    "${PYTHON:-/usr/bin/python3}" - "$1" <<'P'
import os, sys
import numpy
from PIL import Image, ImageFilter
os.chdir(sys.argv[1])
rng = numpy.random.default_rng(4)
for i in range(36):
    size = (int(rng.integers(34, 90)), int(rng.integers(34, 90)))
    image = Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=numpy.uint8)).filter(ImageFilter.GaussianBlur(2))
    folder = "photos/%s" % "abc"[i % 3]
    os.makedirs(folder, exist_ok=True)
    kind, options = [("jpg", {"quality": 90}), ("jpg", {"progressive": True, "subsampling": 0}), ("png", {}), ("webp", {}),
                     ("bmp", {}), ("tif", {"compression": "tiff_lzw"}), ("gif", {})][i % 7]
    (image.convert("L") if i % 5 == 0 else image).save("%s/%02d.%s" % (folder, i, kind), **options)
os.mkdir("batches")
records = rng.integers(0, 256, (72, 3073), dtype=numpy.uint8)
records[:, 0] = numpy.arange(72) % 10
for i in range(6):
    records[12 * i : 12 * i + 12].tofile("batches/" + ("data_batch_%d.bin" % (i + 1) if i < 5 else "test_batch.bin"))
P
}
# on PROGRAM ARGUMENT...: runs a program of `on_build` by the emulator `on_runner`, an array, empty for none
on() { "${on_runner[@]}" "$on_build/$1" "${@:2}"; }
# processor_work FOLDER NAME: packs FOLDER/photos and FOLDER/batches below FOLDER/NAME, loads and trains; fails with what
# failed in $said.
processor_work() {
    local here=$1/$2 dtype augment sizes=(--resize 40 --center-crop 32)
    mkdir -p "$here" || return
    for dtype in u8 f16 bf16 f32; do
        on ffpack "$1/photos" -o "$here/photos-$dtype" "${sizes[@]}" --dtype $dtype >"$said" 2>&1 &&
            on ffpack "$1/batches" -o "$here/batches-$dtype" --dtype $dtype --compress zstd >"$said" 2>&1 || return
    done
    on ffpack "$1/photos" -o "$here/rows" --resize 36x32 --layout hwc --dtype f16 --shuffle 3 >"$said" 2>&1 || return
    # Crops, flips and what copies values are exact; so are changes of u8, by integers and tables.
    for augment in none crop=4,flip flip,erase=0.5 rrc=24,flip trivialaugment autoaugment randaugment=2:9; do
        for dtype in u8 f16 f32; do
            case $dtype-$augment in f*-*augment*) continue ;; esac
            on tests/dump_batches "$here/photos-$dtype" 9 5 "$augment" 7 >"$here/$dtype-$augment.batches" 2>"$said" || return
        done
    done
    on tests/dump_batches "$here/rows" 9 5 crop=2,flip 7 >"$here/rows.batches" 2>"$said" &&
        on fftrain --data "$here/batches-f16" --model smallnet --compute reference --batch 20 --epochs 1 --augment crop=4,flip --log-every 1 \
            --seed 2 --threads 2 --log-json "$here/log" >"$said" 2>&1
}
# processor_differences FOLDER NAME OTHER: prints the files that differ; a history names times and places, and what
# the log has besides losses is compared by no one
processor_differences() {
    diff -rq -x history.jsonl -x log "$1/$2" "$1/$3"
}
# processor_losses FILE: the losses of a log, one a line, with all digits
processor_losses() { grep -oE '"(train_)?loss":[^,}]*' "$1"; }
