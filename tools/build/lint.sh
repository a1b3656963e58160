#!/bin/bash
# make lint: formatting, rooms, headers compiled alone, cppcheck, functions that no program uses, planted
# faults that no longer apply.
# Prints each finding; exits 1 if there was one.
set -u
cd "$(dirname "$0")/../.."
format=$(command -v clang-format-14 || command -v clang-format)
case "$("${format:-false}" --version)" in *'version 14.'*) ;; *) missing="clang-format 14" ;; esac
command -v cppcheck >/dev/null || missing="${missing:+$missing and }cppcheck"
if [ -n "${missing:-}" ]; then echo "lint: needs $missing; 'make deps' installs what is missing"; exit 1; fi
failed=0
finding() { echo "lint: $*"; failed=1; }
mapfile -t sources < <(find format loader train tools tests -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cc' | sort)
mapfile -t headers < <(find format loader train tools -name '*.h' | sort)

# 1. Formatting, by the one version that defines it.
for file in "${sources[@]}"; do
    "$format" --dry-run --Werror "$file" >/dev/null 2>&1 || finding "$file: not formatted; clang-format -i $file"
done

# 2. Rooms and floors, by one table (tools/build/rooms.txt).
while read -r line; do finding "$line"; done < <("${PYTHON:-/usr/bin/python3}" tools/build/rooms.py 2>&1)

# 3. Every header compiles alone, and has a guard.
python=$("${PYTHON:-/usr/bin/python3}" -c 'import os, sysconfig; at = sysconfig.get_path("include"); print(at if os.path.exists(at + "/Python.h") else "")')
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
for file in "${headers[@]}"; do
    if [ "$file" = loader/cuda/kernel.h ]; then # C++, by CUDA's rules
        printf '#include "%s"\n#include "%s"\n' "$file" "$file" >"$scratch/alone.cc"
        ${CXX:-g++} -std=c++17 -I. -Itests/cuda/sim -Wall -Wextra -Werror -Wno-unused-function -fsyntax-only "$scratch/alone.cc" 2>"$scratch/log" ||
            finding "$file: does not compile alone: $(grep -m1 error "$scratch/log")"
        continue
    fi
    printf '#include "%s"\n#include "%s"\n' "$file" "$file" >"$scratch/alone.c"
    case "$file" in loader/python/*) [ -n "$python" ] || continue ;; esac
    ${CC:-gcc} -std=c11 -D_GNU_SOURCE -I. -Iloader/library/include ${python:+-isystem "$python"} -Wall -Wextra -Werror -Wno-unused-function -Wno-unused-const-variable -fsyntax-only "$scratch/alone.c" 2>"$scratch/log" ||
        finding "$file: does not compile alone: $(grep -m1 error "$scratch/log")"
done

# 4. cppcheck, on the rules that find real faults here (it does not know Py_RETURN_NONE).
cppcheck --quiet --std=c11 --language=c -I. -Iloader/library/include -D_GNU_SOURCE -D__x86_64__ --enable=warning,portability \
    --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches --inline-suppr \
    --suppress=nullPointerArithmeticRedundantCheck --suppress=unknownMacro --suppress=invalidPrintfArgType_sint \
    --suppress='missingReturn:loader/python/*' \
    --template='{file}:{line}: {id}: {message}' --error-exitcode=0 -j 2 -i loader/library/examples/batches.cc format loader train tools 2>"$scratch/cppcheck" >/dev/null
while read -r line; do finding "$line"; done < <(grep -E '^(format|loader|train|tools)/' "$scratch/cppcheck" || true)

# 5. Small rules: no tabs or trailing blanks in C, no exit() outside of the mains.
grep -nP '\t| +$' "${sources[@]}" | head -5 | while read -r line; do echo "lint: $line: tab or trailing blank"; done | grep . && failed=1
grep -nE '[^_a-zA-Z>](exit|abort)\(' $(find format loader train tools -name '*.[ch]' ! -name main.c) | grep -v '_exit(' | grep -v 'abort(.*comm, why)' | grep -v 'allowed:' | grep -vE '^\S+: *(/\*| \*)' | while read -r line; do echo "lint: $line: only the mains exit"; done | grep . && failed=1

# ... and lines of the build's rules that fit a screen.
while read -r line; do finding "$line"; done < <(awk 'length > 120 { print FILENAME ":" FNR ": a line of " length " columns, at most 120" }' \
    Makefile $(find tools tests train -name '*.mk'))

# 6. Cleanup: functions of several steps use FF_TRY_DONE (format/base/status.h).
while read -r line; do finding "$line"; done < <(find format loader train tools -name '*.c' -exec awk '
    /^}/ { if (steps > 1) print FILENAME ":" FNR ": ends a function of " steps " steps without FF_TRY_DONE"; steps = 0 }
    /if \(status == FF_OK\)( status =.*)?$/ { steps++ }' {} +)

# 7. Functions that no program uses.
while read -r line; do finding "$line"; done < <("${PYTHON:-/usr/bin/python3}" tools/build/unused.py 2>&1)

# 8. Planted faults (tests/mutate) whose text is no longer there.
while read -r line; do finding "$line"; done < <("${PYTHON:-/usr/bin/python3}" tests/mutate --stale 2>&1)

[ $failed -eq 0 ] && echo "lint: all well (${#sources[@]} files)"
exit $failed
