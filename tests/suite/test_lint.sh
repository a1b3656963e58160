#!/bin/bash
# make lint does not pass where one of its tools is missing. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
tool() { printf '#!/bin/sh\n%s\n' "${2:-exit 0}" >"$scratch/bin/$1"; chmod +x "$scratch/bin/$1"; }
# stops NAME TOOL: the message that names it, and nothing else is looked at
stops() {
    PATH=$scratch/bin tools/build/lint.sh >"$said" 2>&1
    [ $? = 1 ] && [ "$(wc -l <"$said")" = 1 ] && grep -q "^lint: .*needs .*$2" "$said"
    result $? "$1"
}
mkdir "$scratch/bin"
for name in bash dirname env; do ln -s "$(command -v $name)" "$scratch/bin/$name"; done
tool cppcheck
stops "without clang-format" clang-format
tool clang-format 'echo "clang-format version 19.1.7"'
stops "with another clang-format" clang-format
rm "$scratch/bin/clang-format" "$scratch/bin/cppcheck"
tool clang-format-14 'echo "Debian clang-format version 14.0.6"'
stops "without cppcheck" cppcheck
finish
