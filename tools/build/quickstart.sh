#!/bin/bash
# make quickstart: Fashion-MNIST from its IDX files to a trained net. Environment: BUILD,
# FASHION_MNIST (the folder of the four files), QUICKSTART_OUT.
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
source=${FASHION_MNIST:-/usr/share/datasets/fashion-mnist}
out=${QUICKSTART_OUT:-quickstart}
step() { printf '\n== %s\n' "$*"; "$@"; }
for file in train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte; do
    if [ ! -e "$source/$file" ] && [ ! -e "$source/$file.gz" ]; then
        echo "quickstart: $source/$file.gz is missing; install the Debian package dataset-fashion-mnist, or put the four" \
            "files of Fashion-MNIST (train- and t10k- images-idx3-ubyte.gz and labels-idx1-ubyte.gz) into a folder and run" \
            "make quickstart FASHION_MNIST=that/folder" >&2
        exit 1
    fi
done
mkdir -p "$out"
step "$build/ffpack" "$source" -o "$out/fashion-mnist" --classes tools/build/fashion-mnist.classes --force
step "$build/ffinspect" "$out/fashion-mnist"
step "$build/ffinspect" "$out/fashion-mnist/train" --grid 6x10 --png "$out/contact-sheet.png"
rm -rf "$out/run" # of an earlier quickstart
step "$build/fftrain" --data "$out/fashion-mnist" --recipe quickstart --out "$out/run"
printf '\nThe contact sheet is %s; a report of the training is %s, its weights are in %s.\n' \
    "$out/contact-sheet.png" "$out/run/report.html" "$out/run/checkpoints/best"
