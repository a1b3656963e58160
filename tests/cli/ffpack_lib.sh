# Shared by the tests of ffpack: a scratch folder, TAP lines, and checks of failing commands.
# shellcheck shell=bash disable=SC2034
ffpack=${BUILD:-build}/ffpack
python=${PYTHON:-/usr/bin/python3}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'umount "$scratch/full" 2>/dev/null; rm -rf "$scratch"' EXIT
count=0
ok() { count=$((count + 1)); echo "ok $count - $1"; }
not_ok() { count=$((count + 1)); echo "not ok $count - $1"; }
skip() { count=$((count + 1)); echo "ok $count - $1 # SKIP $2"; }
# check NAME COMMAND...: passes where the command succeeds
check() {
    local name=$1; shift
    if "$@" >"$scratch/log" 2>&1; then ok "$name"; else not_ok "$name"; sed 's/^/# /' "$scratch/log"; fi
}
# refuses NAME CODE 'PATTERN;PATTERN' ARGUMENT...: ffpack ends with the code, says one message that
# holds every pattern (grep -F), prints nothing else, and leaves nothing of $scratch/out
refuses() {
    local name=$1 code=$2 patterns=$3 problem="" got pattern; shift 3
    rm -rf "$scratch/place"; mkdir "$scratch/place"
    "$ffpack" "$@" >"$scratch/stdout" 2>"$scratch/stderr"
    got=$?
    [ $got -eq "$code" ] || problem="exit code $got, wanted $code"
    [ "$(wc -l <"$scratch/stderr")" -eq 1 ] || problem="$problem; not one line on stderr"
    grep -q '^ffpack: ' "$scratch/stderr" || problem="$problem; no 'ffpack: '"
    [ -s "$scratch/stdout" ] && problem="$problem; something on stdout"
    while [ -n "$patterns" ]; do
        pattern=${patterns%%;*}
        if [ "$pattern" = "$patterns" ]; then patterns=""; else patterns=${patterns#*;}; fi
        grep -qF -- "$pattern" "$scratch/stderr" || problem="$problem; no '$pattern'"
    done
    [ -z "$(ls -A "$scratch/place")" ] || problem="$problem; left $(ls -A "$scratch/place")"
    if [ -z "$problem" ]; then ok "$name"; else
        not_ok "$name"; echo "# ${problem#; }"; sed 's/^/# /' "$scratch/stderr"
    fi
}
finish() { echo "1..$count"; exit 0; }
if ! "$python" -c 'import numpy, PIL' 2>"$scratch/log"; then
    skip "$(basename "$0")" "$python has no numpy and PIL to make inputs with"
    finish
fi
make_input() { "$python" "$here/make_inputs.py" "$@"; }
