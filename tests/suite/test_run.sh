#!/bin/bash
# tests/run over a small folder of made-up tests: what counts as passed, failed and skipped. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
unset BUILD SANITIZE PYTHON ALLOWED_SKIPS MAKEFLAGS MAKELEVEL MFLAGS
number=0
result() { # CODE NAME
    number=$((number + 1))
    if [ "$1" = 0 ]; then echo "ok $number - $2"; else echo "not ok $number - $2"; sed 's/^/# /' "$scratch/said"; fi
}
mkdir -p "$scratch/tests/unit" "$scratch/tests/some"
cp tests/run "$scratch/tests/run"
# A "program" is a copy of its source; what the scripts need is a count of how often it was built.
printf '%s\n' 'build/tests/%: tests/unit/%.c' '	mkdir -p build/tests && cp $< $@ && chmod +x $@' \
    'script-programs:' '	echo built >>scripts.built' >"$scratch/Makefile"
unit() { printf '#!/bin/sh\n%s\n' "$2" >"$scratch/tests/unit/test_$1.c"; }
script() { printf '%s\n' "$2" >"$scratch/tests/some/test_$1"; }
# gives NAME CODE LAST-LINE NAME-PART [PATTERN]: a run's output and exit code
gives() {
    "$scratch/tests/run" "$4" >"$scratch/said" 2>&1
    local code=$?
    [ $code = "$2" ] && [ "$(tail -n 1 "$scratch/said")" = "$3" ] && grep -q -e "${5:-}" "$scratch/said"
    result $? "$1"
}
script good.sh 'printf "ok 1 - a\nok 2 - b # SKIP none here\nok 3 - c\n1..3\n"'
gives "results are counted" 0 "2 passed, 0 failed, 1 skipped" good '^    ok 2 - b # SKIP none here$'
script python.py 'print("1..1\nok 1 - a")'
gives "of Python too" 0 "1 passed, 0 failed, 0 skipped" python
script bad.sh 'printf "ok 1 - a\nnot ok 2 - b\n# why\n1..2\n"; exit 1'
gives "a failure" 1 "1 passed, 1 failed, 0 skipped" bad '^# why$'
gives "is repeated at the end" 1 "1 passed, 1 failed, 0 skipped" bad '^# some/test_bad.sh: not ok 2 - b$'
script early.sh 'printf "ok 1 - a\nok 2 - b\n"; exit 0; echo "not ok 3 - c"; echo 1..3'
gives "a script that ends early" 1 "2 passed, 1 failed, 0 skipped" early 'no plan'
script fewer.sh 'printf "1..3\nok 1 - a\nok 2 - b\n"'
gives "fewer results than planned" 1 "2 passed, 1 failed, 0 skipped" fewer '3 results are planned, 2 came'
script more.sh 'printf "1..1\nok 1 - a\nok 2 - b\n"'
gives "more results than planned" 1 "2 passed, 1 failed, 0 skipped" more '1 results are planned, 2 came'
script several.sh 'printf "1..2\nok 1 - a\nok 2 - b\n1..1\nok 1 - c\n"'
gives "plans of several programs add up" 0 "3 passed, 0 failed, 0 skipped" several
script nothing.sh 'echo 1..0'
gives "no result" 1 "0 passed, 1 failed, 0 skipped" nothing 'no result'
script dies.sh 'printf "ok 1 - a\n1..1\n"; kill -SEGV $$'
gives "a program that dies" 1 "1 passed, 1 failed, 0 skipped" dies 'exit 139'
script hidden.sh 'printf "not ok 1 - a # SKIP not skipped: failed\n1..1\n"'
gives "a failure that calls itself a skip" 1 "0 passed, 1 failed, 0 skipped" hidden
unit skips '/bin/printf "1..2\nok 1 - test_a\nnot ok 2 # SKIP test_b\n"'
gives "cmocka's skips" 0 "1 passed, 0 failed, 1 skipped" unit/test_skips '^    ok 2 - test_b # SKIP$'
unit fails '/bin/printf "1..1\nnot ok 1 - test_a # SKIP no\n"; exit 1'
gives "cmocka's failures" 1 "0 passed, 1 failed, 0 skipped" unit/test_fails
gives "a name that no test has" 1 "tests/run: no test has a name with 'nosuch'" nosuch

# Programs are rebuilt from the current sources.
unit stale '/bin/printf "1..1\nok 1 - test_old\n"'
"$scratch/tests/run" test_stale >"$scratch/said"
unit stale '/bin/printf "1..1\nnot ok 1 - test_new\n"; exit 1'
touch -d '1 hour' "$scratch/tests/unit/test_stale.c"
gives "a program older than its source is built again" 1 "0 passed, 1 failed, 0 skipped" test_stale 'not ok 1 - test_new'
rm -f "$scratch/scripts.built"
"$scratch/tests/run" good.sh >"$scratch/said" && [ -s "$scratch/scripts.built" ]
result $? "and what the scripts run"
printf '%s\n' 'build/tests/%: tests/unit/%.c' '	false' >"$scratch/Makefile"
rm -f "$scratch/build/tests/test_skips"
gives "a program that cannot be built" 1 "tests/run: not built" test_skips
printf '%s\n' 'script-programs:' >"$scratch/Makefile"

# Skips by name.
export ALLOWED_SKIPS=allowed
printf '%s\n' '# those that may be' 'some/test_good.sh: b' 'some/test_many.sh: on *' >"$scratch/allowed"
gives "a skip that is allowed" 0 "2 passed, 0 failed, 1 skipped" good
script good.sh 'printf "ok 1 - a\nok 2 - c # SKIP none here\n1..2\n"'
gives "a skip that is not" 1 "1 passed, 1 failed, 1 skipped" good "not in allowed: 'some/test_good.sh: c'"
script other.sh 'printf "ok 1 - b # SKIP none here\n1..1\n"'
gives "one of another test" 1 "0 passed, 1 failed, 1 skipped" other "'some/test_other.sh: b'"
script many.sh 'printf "ok 1 - on a card # SKIP none\nok 2 - on two # SKIP none\n1..2\n"'
gives "many by one line" 0 "0 passed, 0 failed, 2 skipped" many
echo "1..$number"
