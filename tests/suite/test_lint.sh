#!/bin/bash
# make lint does not pass where one of its tools is missing. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
number=0
tool() { printf '#!/bin/sh\n%s\n' "${2:-exit 0}" >"$scratch/bin/$1"; chmod +x "$scratch/bin/$1"; }
# lacks NAME TOOL: the message that names it, and nothing else is looked at
lacks() {
    number=$((number + 1))
    PATH=$scratch/bin tools/build/lint.sh >"$scratch/said" 2>&1
    if [ $? = 1 ] && [ "$(wc -l <"$scratch/said")" = 1 ] && grep -q "^lint: .*needs .*$2" "$scratch/said"; then echo "ok $number - $1"; else
        echo "not ok $number - $1"; sed 's/^/# /' "$scratch/said"; fi
}
mkdir "$scratch/bin"
for name in bash dirname env; do ln -s "$(command -v $name)" "$scratch/bin/$name"; done
tool cppcheck
lacks "without clang-format" clang-format
tool clang-format 'echo "clang-format version 19.1.7"'
lacks "with another clang-format" clang-format
rm "$scratch/bin/clang-format" "$scratch/bin/cppcheck"
tool clang-format-14 'echo "Debian clang-format version 14.0.6"'
lacks "without cppcheck" cppcheck
echo "1..$number"
