#!/bin/bash
# gpu-check: built from its one file with nvcc alone; reports that there is no GPU, and prints only
# lines of JSON. TAP.
set -u
build=$(realpath "${BUILD:-build}") python=${PYTHON:-/usr/bin/python3}
. "$(dirname "$0")/../tap.sh"
nvcc=$(sed -n 's/^NVCC := //p' "$build/config.mk" 2>/dev/null)
if [ -z "$nvcc" ] || [ -n "${SANITIZE:-}" ]; then
    skip_all "gpu-check" "built without CUDA"
fi
# shellcheck disable=SC2086
(cd "$scratch" && cp "$OLDPWD/tests/gpu/gpu_check.cu" . && $nvcc -O1 -std=c++17 -arch=sm_80 gpu_check.cu -o gpu-check \
    -L"$(dirname "$(sed -n 's/^LIBS_CUDART := \([^ ]*\).*/\1/p' "$build/config.mk")")" -ldl) >"$said" 2>&1
result $? "one file and nvcc are enough"
"$scratch/gpu-check" --device >"$said" 2>&1
[ $? -eq 2 ] && grep -q '^usage: gpu-check' "$said"
result $? "a wrong option"
"$build/gpu-check" --seed 7 device >"$said" 2>&1
code=$?
"$python" -c '
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
last, code = lines[-1], int(sys.argv[2])
assert last["group"] == "device" and last["seed"] == 7, last
assert code in (0, 77) and last["result"] == ("ok" if code == 0 else "skipped"), (code, last)
assert code == 77 and "no CUDA device 0" in lines[0]["skipped"] or lines[0]["sm"] >= 75, lines
' "$said" $code 2>>"$said"
result $? "its lines are JSON, with or without a GPU"
finish
