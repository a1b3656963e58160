# Shared by the tests in shell, which source it: a scratch folder, TAP lines, the parts of a test.
# shellcheck shell=bash disable=SC2034
scratch=$(realpath "$(mktemp -d)")
trap 'rm -rf "$scratch"' EXIT
said=$scratch/said # what a program printed: shown if a result fails
count=0
show() { tail -q -n 40 "$@" 2>/dev/null | sed 's/^/# /'; }
ok() { count=$((count + 1)); echo "ok $count - $1"; }
skip() { count=$((count + 1)); echo "ok $count - $1 # SKIP $2"; } # NAME REASON
not_ok() { # NAME [FILE...]: shows the files
    count=$((count + 1))
    echo "not ok $count - $1"
    shift; [ $# -eq 0 ] || show "$@"
}
result() { # CODE NAME [FILE...]: passes if the code is 0; else shows the files, or the output
    if [ "$1" = 0 ]; then ok "$2"; else not_ok "$2" "${@:3}"; [ $# -gt 2 ] || show "$said"; fi
}
verdict() { # PROBLEM NAME [FILE...]: passes if there is no problem
    if [ -z "$1" ]; then ok "$2"; return; fi
    not_ok "$2"; echo "# ${1#; }"
    shift 2; [ $# -eq 0 ] || show "$@"
}
check() { # NAME COMMAND...: passes if the command succeeds
    local name=$1; shift
    "$@" >"$scratch/check" 2>&1
    result $? "$name" "$scratch/check"
}
# lacks 'PATTERN;PATTERN': of these texts, those that standard input has not, "; no 'PATTERN'" each
lacks() {
    local text pattern patterns=$1
    text=$(cat)
    while [ -n "$patterns" ]; do
        pattern=${patterns%%;*}
        if [ "$pattern" = "$patterns" ]; then patterns=""; else patterns=${patterns#*;}; fi
        [[ $text == *"$pattern"* ]] || printf "; no '%s'" "$pattern"
    done
}
finish() { echo "1..$count"; exit 0; }
skip_all() { skip "$@"; finish; } # NAME REASON
# Which parts a test with two parts runs (tests/lengths); without tests/run both.
short() { [ "${TEST_LENGTH:-}" != long ]; }
long() { [ "${TEST_LENGTH:-}" != test ]; }
