#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# scripts/test must be able to fail. It runs here with a cmake and a ctest that do as they are told, on servers that only
# know their version, in a build directory of its own; what is looked at is its exit status, its last line, and which phases it ran.
# usage: test_script.sh SOURCE_DIR
set -euo pipefail
source=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin"

cat > "$scratch/bin/cmake" <<'SH'
#!/bin/sh
echo "cmake $*" >> "$SCRATCH/calls"
case "$*" in *"$CMAKE_FAILS_AT"*) [ -n "$CMAKE_FAILS_AT" ] && { echo "error: planted"; exit 1; } ;; esac
while [ $# -gt 0 ]; do
    [ "$1" = -B ] && echo "[]" > "$2/compile_commands.json"
    shift
done
exit 0
SH
cat > "$scratch/bin/clang-tidy" <<'SH'
#!/bin/sh
[ "$1" = --version ] && echo "clang version $TIDY_VERSION.0.6" && exit 0
echo "clang-tidy $*" >> "$SCRATCH/calls"
exit "$TIDY_STATUS"
SH
cat > "$scratch/bin/ctest" <<'SH'
#!/bin/sh
case "$*" in
*--show-only*)
    echo '{"tests": ['
    for name in model.a model.b model.c model.d; do
        echo "{\"name\": \"$name\", \"properties\": [{\"name\": \"LABELS\", \"value\": [\"model\", \"one-in-4\"]}]},"
    done
    echo '{"name": "core.all"}]'"$AFTER_LIST"
    exit 0
    ;;
esac
echo "ctest $* on $(redis-server --version)" >> "$SCRATCH/calls"
case "$*" in *--rerun-failed*) exit "$ALONE_STATUS" ;; esac
mkdir -p "$2/Testing/Temporary"
printf '%s\n' $CTEST_FAILED > "$2/Testing/Temporary/LastTestsFailed.log"
while [ $# -gt 0 ]; do
    [ "$1" = --output-junit ] && out=$2
    shift
done
[ -n "$CTEST_COUNTS" ] || exit "$CTEST_STATUS"
set -- $CTEST_COUNTS
printf '<testsuite name="x"\n\ttests="%s"\n\tfailures="%s"\n\tdisabled="0"\n\tskipped="%s"\n>\n' "$1" "$2" "$3" > "$out"
exit "$CTEST_STATUS"
SH
chmod +x "$scratch"/bin/*
for name in $("$source/scripts/install-servers" --list); do
    mkdir -p "$scratch/servers/$name/bin"
    printf '#!/bin/sh\necho "Redis server v=6.2.14 of %s"\n' "$name" > "$scratch/servers/$name/bin/redis-server"
    chmod +x "$scratch/servers/$name/bin/redis-server"
done
export REDLOCK_SERVERS=$scratch/servers
export REDLOCK_TEST_PROCESSORS=$scratch/bin/test-processors PROCESSORS_FAIL=0
cat > "$REDLOCK_TEST_PROCESSORS" <<'SH'
#!/bin/sh
while [ "$1" != --counts ]; do shift; done
echo "0 $PROCESSORS_FAIL 0" > "$2"
exit "$PROCESSORS_FAIL"
SH
chmod +x "$REDLOCK_TEST_PROCESSORS"
unset REDLOCK_TEST_SHARE # that of the run which this is a part of
export TIDY_VERSION=14 TIDY_STATUS=0 AFTER_LIST="}" CTEST_FAILED="1:core.all" ALONE_STATUS=0

failures=0
# try WHAT STATUS LAST-LINE CMAKE_FAILS_AT CTEST_COUNTS CTEST_STATUS [OPTION...]
try() {
    local what=$1 status=$2 last=$3 got=0
    rm -rf "$scratch/build" "$scratch/calls"
    SCRATCH=$scratch CMAKE_FAILS_AT=$4 CTEST_COUNTS=$5 CTEST_STATUS=$6 PATH=$scratch/bin:$PATH \
        "$source/scripts/test" --build-dir "$scratch/build" "${@:7}" > "$scratch/out" 2>&1 || got=$?
    if [ $got -ne "$status" ] || [ "$(tail -n 1 "$scratch/out")" != "$last" ]; then
        echo "$what: exit status $got (expected $status), output:"
        cat "$scratch/out"
        failures=$((failures + 1))
    fi
}

# called WHAT TIMES PATTERN: so many calls are as the pattern says.
called() {
    local times
    times=$(grep -cE -- "$3" "$scratch/calls" || true)
    [ "$times" -eq "$2" ] || { echo "$1: $times calls of '$3', not $2"; failures=$((failures + 1)); }
}

# Five runs in a row: another server, clang, the two sanitizers, fuzz targets.
try "another server" 0 "20 passed, 0 failed" "" "10 0 0" 0 --share 10
called "another server" 1 '^cmake --build'
called "another server" 1 '^ctest .*tests-redis-8.xml .* on .*redis-8$'
try "clang" 0 "11 passed, 0 failed" "" "10 0 0" 0 --share 6
called "clang" 2 '^cmake --build'
called "clang" 1 '^ctest '
called "clang" 1 '^cmake .*-DREDLOCK_MUTANTS_SHARE=6/32'
try "asan" 0 "20 passed, 0 failed" "" "10 0 0" 0 --share 7
called "asan" 1 '^ctest .*--test-dir .*/asan '
try "tsan" 0 "20 passed, 0 failed" "" "10 0 0" 0 --share 8
called "tsan" 1 '^ctest .*--test-dir .*/tsan '
try "fuzz" 0 "20 passed, 0 failed" "" "10 0 0" 0 --share 9
called "fuzz" 1 '^ctest .*--test-dir .*/fuzz '
called "a share" 2 '^ctest .* -E \^\(model\[\.\]a\|model\[\.\]c\|model\[\.\]d\)\$'
REDLOCK_TEST_SHARE=5 try "the share by the environment" 0 "20 passed, 0 failed" "" "10 0 0" 0
called "the share by the environment" 1 ' -E \^\(model\[\.\]a\|model\[\.\]c\|model\[\.\]d\)\$'
try "the share by the commit" 0 "10 passed, 0 failed" "" "10 0 0" 0 --quick
called "the share by the commit" 1 ' -E '
try "all of them" 0 "121 passed, 0 failed" "" "10 0 0" 0 --all
called "all of them" 5 '^cmake --build'
called "all of them" 12 '^ctest '
called "all of them" 1 '^ctest .*tests-valkey-9.xml .* on .*valkey-9$'
called "all of them" 0 ' -E '
called "all of them" 1 '^cmake .*-DREDLOCK_MUTANTS_SHARE=all'
AFTER_LIST="" try "the list of tests cannot be read" 1 "0 passed, 2 failed" "" "10 0 0" 0 --share 10
TIDY_STATUS=1 try "clang-tidy finds something" 1 "10 passed, 1 failed" "" "10 0 0" 0 --share 6
TIDY_VERSION=15 try "another clang-tidy" 0 "10 passed, 0 failed, 1 skipped" "" "10 0 0" 0 --share 6
called "another clang-tidy" 0 '^clang-tidy '
try "skipped is not passed" 0 "16 passed, 0 failed, 4 skipped" "" "10 0 2" 0 --share 7
try "a test fails" 1 "109 passed, 12 failed" "" "10 1 0" 8 --all
try "a test fails in a share" 1 "18 passed, 2 failed" "" "10 1 0" 8 --share 8
CTEST_FAILED="1:cli.run 2:serve.load" try "two are late" 0 "10 passed, 0 failed" "" "10 2 0" 8 --quick
grep -q '^failed next to others and passed alone: serve.load$' "$scratch/out" || { echo "a late test is not named"; failures=$((failures + 1)); }
CTEST_FAILED="1:cli.run" ALONE_STATUS=8 try "it fails alone too" 1 "9 passed, 1 failed" "" "10 1 0" 8 --quick
CTEST_FAILED="1:cli.run 2:core.all" try "one of two does not go by the clock" 1 "8 passed, 2 failed" "" "10 2 0" 8 --quick
called "one of two does not go by the clock" 0 rerun-failed
CTEST_FAILED="1:cli.a 2:cli.b 3:cli.c 4:cli.d" try "many are no accident" 1 "6 passed, 4 failed" "" "10 4 0" 8 --quick
called "many are no accident" 0 rerun-failed
try "quick: a test fails" 1 "9 passed, 1 failed" "" "10 1 0" 8 --quick
try "ctest fails and counts nothing" 1 "121 passed, 12 failed" "" "10 0 0" 1 --all
try "ctest dies" 1 "1 passed, 12 failed" "" "" 1 --all
try "ctest says well and writes no counts" 1 "1 passed, 12 failed" "" "" 0 --all
try "gcc build fails" 1 "31 passed, 1 failed" "--build $scratch/build/ci-gcc" "10 0 0" 0 --all
try "clang build fails" 1 "120 passed, 1 failed" "--build $scratch/build/ci-clang" "10 0 0" 0 --all
try "clang build fails in its share" 1 "10 passed, 1 failed" "--build $scratch/build/ci-clang" "10 0 0" 0 --share 6
PROCESSORS_FAIL=1 try "a processor fails" 1 "121 passed, 1 failed" "" "10 0 0" 0 --all
try "asan does not configure" 1 "111 passed, 1 failed" "--preset asan" "10 0 0" 0 --all
try "tsan build fails" 1 "111 passed, 1 failed" "--build $scratch/build/tsan" "10 0 0" 0 --all
try "fuzz targets do not build" 1 "111 passed, 1 failed" "--build $scratch/build/fuzz" "10 0 0" 0 --all
REDLOCK_SERVERS=/dev/null/none try "no other server can be had" 0 "41 passed, 0 failed, 8 skipped" "" "10 0 0" 0 --all
grep -q '^valkey-9 .*not available' "$scratch/out" || { echo "what could not be had is not in the table"; failures=$((failures + 1)); }
try "bad share" 64 "scripts/test: --share takes a number" "" "10 0 0" 0 --share x
try "bad number" 64 "scripts/test: -j takes a number, at least 1" "" "10 0 0" 0 -j none
try "no number" 64 "scripts/test: -j takes a number, at least 1" "" "10 0 0" 0 -j
exit $((failures > 0))
