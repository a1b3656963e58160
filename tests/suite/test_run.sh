#!/bin/bash
# tests/run over a small folder of made-up tests: what counts as passed, failed and skipped, what runs when, and in
# which order; and the lengths of the real tests. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
unset BUILD SANITIZE PYTHON ALLOWED_SKIPS MAKEFLAGS MAKELEVEL MFLAGS
mkdir -p "$scratch/tests/unit" "$scratch/tests/some"
cp tests/run "$scratch/tests/run"
: >"$scratch/tests/lengths"
# A "program" is a copy of its source; what the scripts need is a count of how often it was built.
printf '%s\n' 'build/tests/%: tests/unit/%.c' '	mkdir -p build/tests && cp $< $@ && chmod +x $@' \
    'script-programs:' '	echo built >>scripts.built' >"$scratch/Makefile"
unit() { printf '#!/bin/sh\n%s\n' "$2" >"$scratch/tests/unit/test_$1.c"; }
script() { printf '%s\n' "$2" >"$scratch/tests/some/test_$1"; }
# gives NAME CODE LAST-LINE ARGUMENTS [PATTERN]: a run's output and exit code
gives() {
    # shellcheck disable=SC2086
    "$scratch/tests/run" $4 >"$said" 2>&1
    local code=$?
    [ $code = "$2" ] && [ "$(tail -n 1 "$said")" = "$3" ] && grep -qa -e "${5:-}" "$said"
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
script slow.sh 'echo 1..1; sleep 30; echo ok 1 - a'
TEST_SECONDS=1 gives "a test that takes too long" 1 "0 passed, 1 failed, 0 skipped" slow 'ended after 1 s'
NO_START_AFTER=$(($(date +%s) - 5)) gives "a test that would begin too late" 0 "0 passed, 0 failed, 2 skipped" "good several" '^some/test_good.sh: not begun'
NO_START_AFTER=$(($(date +%s) + 600)) gives "one that begins in time" 0 "2 passed, 0 failed, 1 skipped" good
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
gives "two names" 0 "5 passed, 0 failed, 1 skipped" "good several"
gives "the second of two that no test has" 1 "tests/run: no test has a name with 'nosuch'" "good nosuch"

script bytes.sh 'printf "ok 1 - caf\\351 # SKIP none here\\nnot ok 2 - \\0 \\351\\n1..2\\n"'
LC_ALL=C.UTF-8 gives "names that are not UTF-8" 1 "0 passed, 1 failed, 1 skipped" bytes '^# some/test_bytes.sh: not ok 2 - '

# Programs are rebuilt from the current sources.
unit stale '/bin/printf "1..1\nok 1 - test_old\n"'
"$scratch/tests/run" test_stale >"$said"
unit stale '/bin/printf "1..1\nnot ok 1 - test_new\n"; exit 1'
touch -d '1 hour' "$scratch/tests/unit/test_stale.c"
gives "a program older than its source is built again" 1 "0 passed, 1 failed, 0 skipped" test_stale 'not ok 1 - test_new'
rm -f "$scratch/scripts.built"
"$scratch/tests/run" good.sh >"$said" && [ -s "$scratch/scripts.built" ]
result $? "and what the scripts run"
printf '%s\n' 'build/tests/%: ; mkdir -p $(@D) && echo $@ >>needed.built' 'python-package: ; echo $@ >>needed.built' >>"$scratch/Makefile"
script needs.sh '# Needs: tests/one python-package tests/two
echo ok 1; echo 1..1'
rm "$scratch/scripts.built"
"$scratch/tests/run" needs.sh >"$said" && [ ! -e "$scratch/scripts.built" ] &&
    [ "$(sort "$scratch/needed.built" | paste -sd' ')" = "build/tests/one build/tests/two python-package" ]
result $? "or what a script states that it needs"
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
unset ALLOWED_SKIPS

# ---- lengths ----
rm -rf "$scratch"/tests/*/* "$scratch/build"
for name in checks tests longs default; do script $name.sh "echo 1..1; echo ok 1 - \$TEST_LENGTH"; done
script both.sh ". '$PWD/tests/tap.sh'; short && ok 'a short one'; long && ok 'a long one'; long && ok 'another'; finish"
script both.py "import sys; sys.path.insert(0, '$PWD/tests'); import tap; [tap.ok(1, 'one') for part in (tap.SHORT, tap.LONG) if part]; tap.finish()"
printf '%s\n' '# none' '' 'some/*.sh test' 'some/test_checks.sh check' 'some/test_longs.sh long' 'some/test_both.* test long' >"$scratch/tests/lengths"
sed -i '/default/d' "$scratch/tests/lengths" # no line: test
gives "check: what is marked so" 0 "1 passed, 0 failed, 0 skipped" "--length check" "test_checks.sh  *1 ok"
gives "test: that, what has no mark, and short parts" 0 "5 passed, 0 failed, 0 skipped" "--length test"
gives "long: the rest" 0 "4 passed, 0 failed, 0 skipped" "--length long"
gives "all: each once" 0 "9 passed, 0 failed, 0 skipped" ""
gives "a part of a name: of every length" 0 "3 passed, 0 failed, 0 skipped" "both.sh"
gives "and of one" 0 "2 passed, 0 failed, 0 skipped" "--length long both.sh"
gives "a test that is in one length runs whole" 0 "some/test_longs.sh all" "--length long --list longs"
gives "one in two lengths runs a part" 0 "some/test_both.sh long" "--length long --list both.sh"
gives "no other length" 1 "tests/run: --length is check, test, long or all, not 'short'" "--length short"
gives "no other option" 1 "tests/run: there is no option --lengths" "--lengths test"
gives "no test of a length" 1 "tests/run: no test of this length has such a name" "--length check longs"
echo 'some/test_gone.sh long' >>"$scratch/tests/lengths"
gives "a line of a test that is gone" 1 "tests/run: tests/lengths: no test is 'some/test_gone.sh'" "both"
sed -i '$s/.*/some\/test_both.sh lang/' "$scratch/tests/lengths"
gives "a word that says nothing" 1 "tests/run: tests/lengths: 'some/test_both.sh': 'lang' is unknown" "both"

# ---- order ----
printf '%s\n' 'some/test_longs.sh 40s' 'some/test_tests.sh alone 90s' 'some/test_both.* in-turn' >"$scratch/tests/lengths"
ordered() { # NAMES
    JOBS=1 "$scratch/tests/run" >"$said" 2>&1 && [ "$(sed -nE 's/^some.test_([a-z.]*) .*/\1/p' "$said" | paste -sd' ')" = "$1" ]
}
[ "$(sort "$scratch/build/test-times" | cut -d' ' -f1,2 | paste -sd, | sed 's/some.test_//g')" = \
    'both.py all,both.py long,both.py test,both.sh all,both.sh long,both.sh test,checks.sh all,default.sh all,longs.sh all,tests.sh all' ]
result $? "the build folder has a time of each test and part"
awk '$3 !~ /^[0-9.]+$/ || $4 !~ /^[0-9.]+$/ || NF != 4' "$scratch/build/test-times" >"$said" && [ ! -s "$said" ]
result $? "of the clock and of the processors"
printf 'some/test_%s all %s 1\n' both.py 3 both.sh 20 checks.sh 1 default.sh 30 longs.sh 2 tests.sh 99 >"$scratch/build/test-times"
ordered "default.sh both.sh both.py longs.sh checks.sh tests.sh"
result $? "the longest is first, those in turn follow each other, and what runs alone is last"
grep -q '^some/test_both.sh all 0' "$scratch/build/test-times"
result $? "a new time replaces the old one"
rm "$scratch/build/test-times"
ordered "longs.sh both.sh both.py checks.sh default.sh tests.sh"
result $? "without times: by those of tests/lengths"
script checks.sh 'sleep 0.3; echo "not ok 1 - a"; echo 1..1'
printf 'some/test_checks.sh all 50 1\n' >"$scratch/build/test-times"
"$scratch/tests/run" checks >"$said"; grep -q '^some/test_checks.sh all 50 1$' "$scratch/build/test-times"
result $? "a failure's time is not kept"
script slow.sh 'sleep 0.5; awk "BEGIN { while (i++ < 3000000); }"; echo ok 1; echo 1..1'
"$scratch/tests/run" slow >"$said" && awk '/slow/ { exit !($3 > $4 + 0.4 && $4 > 0.02) }' "$scratch/build/test-times"
result $? "both times are those of the test"

# ---- the real tests ----
list() { tests/run --list --length "$1" >"$scratch/$1" || cat "$scratch/$1"; }
list all && list check && list test && list long
cut -d' ' -f1 "$scratch/test" "$scratch/long" | sort -u | diff - <(cut -d' ' -f1 "$scratch/all" | sort) >"$said"
result $? "every test is in make test or make test-long"
cat "$scratch/test" "$scratch/long" | awk '$2 == "all" && n[$1]++ || p[$1 $2]++' >"$said" && [ ! -s "$said" ]
result $? "and not in both, except for one with two parts"
cat "$scratch/test" "$scratch/long" | sed -n 's/ \(test\|long\)$//p' | sort -u | while read -r name; do
    files=tests/$name
    case $name in unit/*) # the program's source, and the tests' headers that it includes
        files=$(ls "tests/$name.c" "tests/cuda/$name.c" 2>/dev/null)
        files+=" $(sed -n 's/^#include "\(tests\/[^"]*\)".*/\1/p' "$files" | tr '\n' ' ')" ;;
    esac
    for part in '(\<|_)(SHORT|short)\>' '(\<|_)(LONG|long)\>'; do
        # shellcheck disable=SC2086
        grep -qE "$part" $files || echo "$name does not ask for $part"
    done
done >"$said"
[ ! -s "$said" ]
result $? "which asks for the part that runs"
grep -lE '\btap\.(SHORT|LONG)\b|(^|if |[;&|!] *)(short|long)( *[;&|]|$)' tests/*/test_*.{sh,py} | sed 's|^tests/||' |
    grep -v '^suite/test_run.sh$' | while read -r name; do grep -q "^$name \(test\|long\)$" "$scratch/test" || echo "$name has one length"; done >"$said"
[ ! -s "$said" ]
result $? "and no other test does"
# Programs as scripts name them: tap.program("NAME"), $build/tests/NAME, $build/ffpack, os.path.join(tap.BUILD, "ffpack");
# test_$name is not a name.
for script in $(grep -l '^# Needs: ' tests/*/test_*.{sh,py}); do
    needs=" $(sed -n 's/^# Needs: //p' "$script") "
    for program in $(grep -oiE '\bprogram\("[a-z_.]+|build\}?"?/tests/[a-z_.]+|build(\}?"?/|[},]* "?/?)ff(pack|inspect|train)\b' "$script" |
        grep -v '_$' | sed -E 's/.*\("/tests\//;s/.*\/tests/tests/;s/.*[^a-z](ff[a-z]*)$/\1/'); do
        case $needs in *" $program "*) ;; *) echo "$script: $program" ;; esac
    done
done >"$said"
[ ! -s "$said" ]
result $? "a script that states what it needs names all the programs that it runs"
sort "$scratch/check" | comm -23 - <(sort "$scratch/test") >"$said" && [ ! -s "$said" ]
result $? "make check is part of make test"
finish
