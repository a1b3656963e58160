# Shared by the tests of ffpack: a scratch folder, TAP lines, and checks of failing commands.
# shellcheck shell=bash disable=SC2034
ffpack=${BUILD:-build}/ffpack
python=${PYTHON:-/usr/bin/python3}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../tap.sh"
trap 'umount "$scratch/full" 2>/dev/null; rm -rf "$scratch"' EXIT
# refuses NAME CODE 'PATTERN;PATTERN' ARGUMENT...: ffpack ends with the code, says one message that
# holds every pattern (grep -F), prints nothing else, and leaves nothing of $scratch/out
refuses() {
    local name=$1 code=$2 patterns=$3 problem="" got; shift 3
    rm -rf "$scratch/place"; mkdir "$scratch/place"
    "$ffpack" "$@" >"$scratch/stdout" 2>"$scratch/stderr"
    got=$?
    [ $got -eq "$code" ] || problem="exit code $got, wanted $code"
    [ "$(wc -l <"$scratch/stderr")" -eq 1 ] || problem="$problem; not one line on stderr"
    grep -q '^ffpack: ' "$scratch/stderr" || problem="$problem; no 'ffpack: '"
    [ -s "$scratch/stdout" ] && problem="$problem; something on stdout"
    problem+=$(lacks "$patterns" <"$scratch/stderr")
    [ -z "$(ls -A "$scratch/place")" ] || problem="$problem; left $(ls -A "$scratch/place")"
    verdict "$problem" "$name" "$scratch/stderr"
}
if ! "$python" -c 'import numpy, PIL' 2>"$scratch/log"; then
    skip_all "$(basename "$0")" "$python has no numpy and PIL to make inputs with"
fi
make_input() { "$python" "$here/make_inputs.py" "$@"; }
