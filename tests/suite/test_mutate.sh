#!/bin/bash
# tests/mutate on a small tree: a fault that is caught, one that hangs, a survivor, a stale entry,
# an equivalent one, one marked equivalent that is caught, and one that does not compile. Prints
# TAP.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/tap.sh
work=$scratch
mkdir -p "$work"/tests/mutations "$work"/tests/unit "$work"/tests/programs "$work"/tests/shims
cp tests/mutate "$work"/tests/
cat >"$work"/Makefile <<'MAKE'
build/tests/test_sum: sum.c tests/unit/test_sum.c
	@mkdir -p $(@D)
	@cc $^ -o $@
MAKE
cat >"$work"/sum.c <<'C'
#include <stdlib.h>
int sum(int n);
int sum(int n) {
    int s = 0;
    for (int i = 0; i <= n; i++) s += i;
    if (n > 100) s = 0;
    return s;
}
C
cat >"$work"/tests/unit/test_sum.c <<'C'
#include <stdio.h>
#include <unistd.h>
int sum(int n);
int main(void) {
    puts("1..2\nok 1 - begun");
    int right = sum(3) == 6;
    puts(right ? "ok 2 - sum" : "not ok 2 - sum");
    fflush(stdout);
    if (!right) sleep(60);
    return !right;
}
C
caught='sum.c test_sum
- i <= n
+ i < n'
equivalent='sum.c test_sum
- int i = 0
+ int i = 1
= adding nothing is not a loss'
# try NAME EXIT TEXT LIST: a run over the list has this exit code and prints the text
try() {
    printf '%s\n' "$4" >"$work"/tests/mutations/list.txt
    "$work"/tests/mutate --slack 2 >"$work"/out 2>&1
    local code=$?
    [ $code -eq "$2" ] && grep -qE "$3" "$work"/out && cmp -s "$work"/sum.c "$work"/sum.first
    result $? "$1" "$work"/out
}
cp "$work"/sum.c "$work"/sum.first
try "a caught and an equivalent one" 0 '2 faults: 1 caught, 1 equivalent, 0 wrong' "$caught

# said to be so
$equivalent"
try "its first failure ends a test" 0 '^caught .* test_sum: sum, ' "$caught"
try "a survivor" 1 '^SURVIVOR: list.txt:1 ' 'sum.c test_sum
- n > 100
+ n > 99'
try "a survivor does not hide what comes after it" 1 '2 faults: 1 caught, 0 equivalent, 1 wrong' "sum.c test_sum
- n > 100
+ n > 99

$caught"
try "lines in a row" 1 '^SURVIVOR: list.txt:1 ' 'sum.c test_sum
-     if (n > 100) s = 0;
-     return s;
+     return s;'
try "text that is not there" 1 '^STALE: list.txt:1 ' 'sum.c test_sum
- i > n
+ i < n'
try "text that is there twice" 1 '^STALE .*2 times' 'sum.c test_sum
- s = 0;
+ s = 1;'
try "an equivalent one that is caught" 1 '^UNEQUAL: list.txt:1 ' 'sum.c test_sum
- i <= n
+ i < n
= wrongly said'
try "a fault that does not compile" 1 '^NO BUILD: list.txt:1 ' 'sum.c test_sum
- i <= n
+ i <= m'
try "a fault that hangs is caught" 0 '^caught .*hangs' 'sum.c test_sum
- s += i
+ s += i--'
try "a test that ends early, without a word" 0 '^caught .*2 results are planned, 1 came' 'sum.c test_sum
- return s;
+ exit(0);'
try "a test that is not there" 1 'there is no test_none.c below tests' 'sum.c test_none
- s += i
+ s -= i'
mkdir -p "$work"/tests/cli
cat >>"$work"/Makefile <<'MAKE'
build/ffpack build/ffinspect build/fftrain: ; @mkdir -p $(@D) && touch $@
build/tests/helper: tests/programs/helper.c ; @mkdir -p $(@D) && cc $^ -o $@
MAKE
echo 'int main(void) { return 0; }' >"$work"/tests/programs/helper.c
touch "$work"/tests/shims/none.txt
echo '"$BUILD"/tests/helper' >"$work"/tests/shared.sh
cat >"$work"/tests/cli/test_script.sh <<'SH'
. tests/shared.sh && grep -q "i <= n" sum.c && echo "ok 1 - sum" || echo "not ok 1 - sum"
echo 1..1
SH
try "a script whose program a shared file names" 0 '^caught .*test_script.sh: sum' 'sum.c cli/test_script.sh
- i <= n
+ i < n'
mkdir -p "$work"/tests/cuda
echo 'build/tests/fftrain_launches: sum.c tests/programs/launches.c ; @mkdir -p $(@D) && cc $^ -o $@' >>"$work"/Makefile
echo 'int sum(int n); int main(void) { return sum(3) != 6; }' >"$work"/tests/programs/launches.c
echo 'build/tests/fftrain_launches && echo "ok 1 - sum" || echo "not ok 1 - sum"; echo 1..1' >"$work"/tests/cuda/test_launches.sh
try "a script whose program has another name than its source" 0 '^caught .*test_launches.sh: sum' 'sum.c cuda/test_launches.sh
- i <= n
+ i < n'
echo 'echo "not ok 1 - broken"; echo "# the reason"; echo "ok 2 - whole"; echo 1..2' >"$work"/tests/cli/test_script.sh
try "a test that fails without a fault is shown, with what it printed" 1 '^# the reason$' 'sum.c cli/test_script.sh
- i <= n
+ i < n'
sed -i 's/== 6/== 7/' "$work"/tests/unit/test_sum.c
try "tests that fail without a fault" 1 'fail without a fault' "$caught"
finish
