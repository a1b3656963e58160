# Shared by the tests in shell: a scratch folder, TAP lines, the two parts of a test. Sourced by them.
# shellcheck shell=bash disable=SC2034
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
said=$scratch/said # a failure shows its last 40 lines
count=0
ok() { count=$((count + 1)); echo "ok $count - $1"; }
skip() { count=$((count + 1)); echo "ok $count - $1 # SKIP $2"; }
not_ok() { # NAME [PROBLEM]
    count=$((count + 1))
    echo "not ok $count - $1"
    [ -z "${2:-}" ] || echo "# $2"
    [ ! -f "$said" ] || tail -n 40 "$said" | sed 's/^/# /'
}
# result CODE NAME: passes where the code is 0
result() { if [ "$1" = 0 ]; then ok "$2"; else not_ok "$2"; fi; }
# check NAME COMMAND...: passes where the command succeeds
check() {
    local name=$1; shift
    "$@" >"$said" 2>&1
    result $? "$name"
}
finish() { echo "1..$count"; exit 0; }
skip_all() { skip "$@"; finish; }
# Which parts a test with two parts runs (tests/lengths); without tests/run both.
short() { [ "${TEST_LENGTH:-}" != long ]; }
long() { [ "${TEST_LENGTH:-}" != test ]; }
