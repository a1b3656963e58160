#!/bin/bash
# A system where nothing is installed: the packages of quickstart and those of the tests, in both orders, and
# packages that are removed again. What make finds follows each time, and what is not concerned is not compiled
# again. Two Debian roots of this test's own; needs root and the network. TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
if [ "${1:-}" != inside ]; then
    roots=$(realpath "$(mktemp -d -p /var/tmp)") && trap 'rm -rf --one-file-system "$scratch" "$roots"' EXIT
    skipped() { skip_all "packages come and go" "$1"; }
    [ "$(id -u)" = 0 ] || skipped "only root makes a chroot"
    unshare --mount --pid --fork true 2>/dev/null || skipped "no namespaces here"
    export FFPACK_WITHOUT_CUDA=1 FFPACK_CHROOTS=$roots/one
    tools/build/debian.sh bookworm true >"$scratch/log" 2>&1 || skipped "no Debian can be installed: $(tail -n 1 "$scratch/log")"
    mkdir "$roots/two" && cp -a "$roots/one/bookworm" "$roots/two/"
    tools/build/debian.sh bookworm tests/build/test_packages.sh inside quickstart-first
    rm -rf --one-file-system "$roots/one" # before the second one grows: each comes to 2 GB
    FFPACK_CHROOTS=$roots/two tools/build/debian.sh bookworm tests/build/test_packages.sh inside tests-first
    exit
fi

# ---- in the root ----
order=$2
[ "$order" = quickstart-first ] || count=9
installs() { tools/build/deps.sh "$@" >"$said" 2>&1; }
removes() { apt-get remove -y -qq "$@" >"$said" 2>&1; }
makes() { local code=$1; shift; make --no-print-directory "$@" >"$said" 2>&1; [ $? = "$code" ]; }
# What make would compile, as it stands: the sources.
compiles() { makes 0 -n programs && { grep -oE -- '-c [^ ]+\.(c|cu|cc) ' "$said"; true; } | sort -u >compiled; }
only() { ! grep -qvE -- "$1" compiled; }
none() { [ ! -s compiled ]; }
# Every object and program, as if it had been built now.
touched() {
    find format loader train tools tests -type d | sed 's|^|build/obj/|' | xargs mkdir -p && mkdir -p build/python/ffload build/share/ffpack/recipes &&
        makes 0 -t programs
}
# A test that needs the lowest layer alone: no other is compiled.
links() { makes 0 BUILD=linked CFLAGS=-O0 LOADER_OBJECTS= TRAIN_OBJECTS= TESTING_OBJECTS= linked/tests/test_dtype && linked/tests/test_dtype >"$said" 2>&1; }
case "$order" in
quickstart-first)
    installs build quickstart && compiles && ! none && ! grep -q LIBS_CMOCKA build/config.mk
    result $? "$order: with quickstart's packages all is compiled"
    touched && compiles && none
    result $? "$order: all is built"
    # Of the tests' packages those that the build looks for: all of them are installed after quickstart's by .ci/steps.
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libcmocka-dev libopenmpi-dev python3-dev >"$said" 2>&1 && compiles && grep -q 'cmocka: found' "$said" && grep -q 'MPI: found' "$said" && grep -q 'Python: found' "$said"
    result $? "$order: the tests' packages are found after it"
    only '^-c (loader/python/extension/|train/comm/collective/mpi_module)'
    result $? "$order: only what uses them is compiled"
    links
    result $? "$order: a unit test links and passes"
    touched && removes libdnnl-dev && compiles && grep -q 'oneDNN: not found' "$said" && only '^-c train/compute/cpu/(cpu|onednn[a-z_]*)\.c ' && ! none
    result $? "$order: oneDNN removed: what calls it is compiled without it"
    touched && removes libspng-dev && makes 2 programs && grep -q 'libspng: MISSING (no header spng.h)' "$said"
    result $? "$order: a library removed that is needed: refused, by its name"
    installs build && compiles && only '^-c train/compute/cpu/(cpu|onednn[a-z_]*)\.c ' && ! none
    result $? "$order: both installed again: only what calls oneDNN is compiled"
    touched && compiles && none && makes 0 programs && ! grep -q probing "$said"
    result $? "$order: nothing changed: nothing is looked for"
    ;;
tests-first)
    installs test && makes 2 programs && grep -q 'MISSING' "$said" && tail -n 2 "$said" | grep -q 'As root: apt-get install .*libspng-dev'
    result $? "$order: with the tests' packages alone, what is missing is named"
    installs build quickstart && compiles && grep -q 'libspng: found' "$said" && grep -q 'cmocka: found' "$said"
    result $? "$order: with quickstart's after them all is found"
    links
    result $? "$order: a unit test links and passes"
    touched && removes libcmocka-dev && compiles && none && makes 2 test-programs && tail -n 1 "$said" | grep -q 'the tests need cmocka, which is MISSING: libcmocka-dev'
    result $? "$order: cmocka removed: no program is compiled again, and the tests say what they need"
    finish
    ;;
esac
