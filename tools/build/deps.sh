#!/bin/bash
# Installs the packages of packages.txt that this system lacks.
# Usage: deps.sh NEED... (NEED: build, quickstart, test, lint, bundle, cross, peers). Prints what it installs; uses
# sudo if not root. If it cannot do something, it reports that in a sentence; the build's probes then decide.
set -u
table="$(dirname "$0")/packages.txt"
system=unknown
[ -r /etc/os-release ] && system=$(. /etc/os-release && echo "${ID:-unknown}-${VERSION_ID:-}")
column=$(awk -v name="$system" '/^# need / { for (i = 3; i <= NF; i++) if ($i == name) print i - 1 }' "$table")
if [ -z "$column" ]; then
    echo "deps: no package names are known for '$system'; Debian 12's are used" >&2
    column=2
fi
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "deps: this system has no apt; install what 'make' reports missing yourself" >&2
    exit 0
fi
missing=()
for need in "$@"; do
    while read -r package; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done < <(awk -v need="$need" -v column="$column" '$1 == need && $column != "-" { print $column }' "$table" | sort -u)
done
[ ${#missing[@]} -eq 0 ] && exit 0
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "deps: not root and no sudo; ask an administrator to install: ${missing[*]}" >&2
        exit 0
    fi
    as_root=(sudo)
fi
echo "deps: installing ${missing[*]}" >&2
# Waits for another installation (a new system updates itself).
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=600)
"${as_root[@]}" apt-get update -qq || echo "deps: apt-get update failed; trying with the lists at hand" >&2
# One unavailable package must not prevent the others.
"${install[@]}" "${missing[@]}" >/dev/null && exit 0
for package in "${missing[@]}"; do
    "${install[@]}" "$package" >/dev/null ||
        echo "deps: $package could not be installed" >&2
done
exit 0
