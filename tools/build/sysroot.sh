#!/bin/bash
# Makes the folder FOLDER with Debian's libraries of another architecture, which the compilers of CROSS take with
# --sysroot: what packages.txt lists for building, cmocka for the unit tests and Python, of the suite of this machine.
# Nothing is installed, no root is needed. Usage: sysroot.sh CROSS FOLDER; an existing folder is kept.
set -u
cross=$1 folder=$2
fail() { echo "sysroot: $*" >&2; exit 1; }
case $cross in
aarch64-linux-gnu) architecture=arm64 ;;
'') fail "CROSS=aarch64-linux-gnu names the architecture" ;;
*) fail "CROSS=$cross: the Debian architecture of this name is not known; wanted aarch64-linux-gnu" ;;
esac
[ ! -e "$folder/.made" ] || exit 0
. /etc/os-release
[ "$ID" = debian ] || fail "this is not Debian: SYSROOT=dir names a folder with the libraries of $architecture"
command -v mmdebstrap >/dev/null || fail "mmdebstrap is not here: apt-get install mmdebstrap"
compiler=$("$cross-gcc" -dumpversion 2>/dev/null) || fail "$cross-gcc is not here: apt-get install g++-$cross"
wanted=$(awk -v column="debian-$VERSION_ID" '/^# need / { for (i = 3; i <= NF; i++) if ($i == column) at = i - 1 }
    ($1 == "build" || $1 == "bundle") && $at ~ /^lib.*-dev$|^zlib/ { print $at }' "$(dirname "$0")/packages.txt")
rm -rf "$folder" && mkdir -p "$(dirname "$folder")"
# shellcheck disable=SC2086
mmdebstrap --quiet --architectures=$architecture --variant=extract --include="$(echo $wanted libgcc-$compiler-dev \
    libstdc++-$compiler-dev libcmocka-dev python3 libpython3-dev | tr ' ' ,)" "$VERSION_CODENAME" "$folder" >"$folder.log" 2>&1 ||
    fail "the packages of $architecture cannot be had: $(grep -m 1 '^E:' "$folder.log" | cut -c1-120) ($folder.log)"
rm -f "$folder.log"
touch "$folder/.made"
