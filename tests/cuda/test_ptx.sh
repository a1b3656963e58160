#!/bin/bash
# The compiled kernels, for the architectures that were built: no spilled registers, no stack
# frames, and 16-byte loads and stores where tests/cuda/hot_kernels says. The build leaves PTX and
# ptxas's own words next to each object. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
objects=${BUILD:-build}/obj/cuda list=tests/cuda/hot_kernels
if [ ! -f "${BUILD:-build}/libff_cuda.so" ]; then
    skip_all "kernels as compiled" "no CUDA module: built without a CUDA toolkit, or with a sanitizer"
fi
patterns() { sed -n "s|^$1 $2 ||p" "$list"; } # KIND FILE

for source in loader/cuda/*.cu train/compute/cuda/kernels/*.cu; do
    framed=$(patterns framed "$source" | paste -sd'|')
    found=$(awk -v framed="${framed:-^$}" '
        /Function properties for/ { name = $NF }
        /bytes stack frame/ { kernels++; if ($1 + $5 + $9 && name !~ framed) print name ": " $0 }
        END { if (!kernels) print "no kernel was compiled" }' "$objects/${source%.cu}.log" 2>&1)
    [ -z "$found" ] || printf '%s\n' "$found" | sed 's/^/# /'
    [ -z "$found" ]
    result $? "$source: no spills, no stack frames"
done

while read -r _ source pattern; do
    found=$(awk -v pattern="$pattern" '
        /\.entry/ { name = $0; sub(/.*\.entry */, "", name); sub(/\(.*/, "", name)
                    hot = name ~ pattern; if (hot) { kernels++; loads[name] = stores[name] = 0 } }
        hot && /ld(\.global)?[a-z.]*\.v4|ld\.global[a-z0-9.]*\.v2\.[a-z]64|ld\.global[a-z.]*\.b128/ { loads[name]++ }
        hot && /st(\.global)?[a-z.]*\.v4|st\.global[a-z0-9.]*\.v2\.[a-z]64|st\.global[a-z.]*\.b128/ { stores[name]++ }
        END { if (!kernels) print "no kernel of this name"
              for (name in loads) if (!loads[name] || !stores[name])
                  print name ": " loads[name] " loads, " stores[name] " stores of 16 bytes" }' \
        "$objects/${source%.cu}.keep"/*.ptx 2>&1)
    [ -z "$found" ] || printf '%s\n' "$found" | sed 's/^/# /'
    [ -z "$found" ]
    result $? "$source: 16 bytes at once in $pattern"
done < <(grep '^vector ' "$list")
finish
