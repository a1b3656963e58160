#!/bin/bash
# gpu-check: built from its one file with nvcc alone; reports that there is no GPU, and prints only
# lines of JSON. TAP.
set -u
build=$(realpath "${BUILD:-build}") python=${PYTHON:-/usr/bin/python3}
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
count=0
ok() { count=$((count + 1)); echo "ok $count - $1"; }
not_ok() { count=$((count + 1)); echo "not ok $count - $1"; sed 's/^/# /' "$scratch/said"; }
nvcc=$(sed -n 's/^NVCC := //p' "$build/config.mk" 2>/dev/null)
if [ -z "$nvcc" ] || [ -n "${SANITIZE:-}" ]; then
    echo "ok 1 - gpu-check # SKIP built without CUDA"; echo "1..1"; exit 0
fi
# shellcheck disable=SC2086
if (cd "$scratch" && cp "$OLDPWD/tests/gpu/gpu_check.cu" . && $nvcc -O1 -std=c++17 -arch=sm_80 gpu_check.cu -o gpu-check \
    -L"$(dirname "$(sed -n 's/^LIBS_CUDART := \([^ ]*\).*/\1/p' "$build/config.mk")")" -ldl) >"$scratch/said" 2>&1; then
    ok "one file and nvcc are enough"
else not_ok "one file and nvcc are enough"; fi
"$scratch/gpu-check" --device >"$scratch/said" 2>&1
if [ $? -eq 2 ] && grep -q '^usage: gpu-check' "$scratch/said"; then ok "a wrong option"; else not_ok "a wrong option"; fi
"$build/gpu-check" --seed 7 device >"$scratch/said" 2>&1
code=$?
"$python" -c '
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
last, code = lines[-1], int(sys.argv[2])
assert last["group"] == "device" and last["seed"] == 7, last
assert code in (0, 77) and last["result"] == ("ok" if code == 0 else "skipped"), (code, last)
assert code == 77 and "no CUDA device 0" in lines[0]["skipped"] or lines[0]["sm"] >= 75, lines
' "$scratch/said" $code 2>>"$scratch/said" && ok "its lines are JSON, with or without a GPU" || not_ok "its lines are JSON, with or without a GPU"
echo "1..$count"
