#!/bin/bash
# Makes a wheel of a build: the package ffload with the programs (bin), their libraries (lib) and the files that
# they read (share), as bundle.sh gathers them. NVIDIA's libraries are found in the environment in which the
# wheel is installed.
# Usage: wheel.sh BUILD FOLDER VERSION; the file goes to FOLDER. Environment: LIBARCHIVE, CUDA_FOLDERS, PYTHON;
# CROSS and SYSROOT, for another architecture.
set -eu
build=$1 to=$2 version=$3
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
files=$scratch/files package=$scratch/files/ffload
mkdir "$files"
BUNDLE_LIBRARIES=libffload.so.0 BUNDLE_MPI=0 tools/build/bundle.sh "$build" "$package" ffpack ffinspect fftrain >"$scratch/said" ||
    { cat "$scratch/said"; exit 1; }
cp "$build"/python/ffload/*.py "$build"/python/ffload/*.pyi "$build"/python/ffload/py.typed "$build/python/ffload/_ffload.abi3.so" "$package/"
"${CROSS:+$CROSS-}strip" --strip-unneeded "$package/_ffload.abi3.so"
patchelf --set-rpath '$ORIGIN/lib' "$package/_ffload.abi3.so"
# Man pages and completions have their own places in an environment; the licences lie next to the metadata.
data=$files/ffload-$version.data/data/share
mkdir -p "$data"
for part in man bash-completion zsh; do mv "$package/share/$part" "$data/"; done
mkdir -p "$files/ffload-$version.dist-info"
mv "$package/share/doc/licences" "$files/ffload-$version.dist-info/licenses"
rm -rf "$package/share/doc"
mkdir -p "$to"
awk -v page=loader/python/README.md -f tools/build/pages.awk loader/python/README.md >"$scratch/README.md"
"${PYTHON:-python3}" -B tools/build/wheel.py "$files" "$to" "$version" "$scratch/README.md"
