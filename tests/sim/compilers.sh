#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# usage: compilers.sh SOURCE-DIR
# Builds the simulator with gcc and with clang, without optimisation and with all of it, and compares what each makes
# of the same seeds. Exit 77 where there is only one compiler.
set -euo pipefail

source=$1
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
if ! command -v gcc >/dev/null || ! command -v clang >/dev/null; then
    echo "gcc and clang are not both here"
    exit 77
fi

check() {
    local compiler=$1 type=$2 dir=$build/$1-$2
    cmake -G Ninja -S "$source" -B "$dir" -DCMAKE_C_COMPILER="$compiler" -DCMAKE_BUILD_TYPE="$type" -DREDLOCK_TESTS=OFF \
        -DREDLOCK_EXAMPLES=OFF >/dev/null
    cmake --build "$dir" --target redlock-sim -j 2 >/dev/null
    "$source/tests/sim/hashes.sh" "$dir/cli/redlock-sim"
    echo "$compiler $type: the same"
}

check gcc Release
check clang Debug
check clang Release
check gcc Debug
