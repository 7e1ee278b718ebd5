#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# usage: compilers.sh SOURCE-DIR COMPILER BUILD-TYPE
# Builds the simulator with that compiler (gcc, clang), and compares what it makes of the same seeds with what all must make
# of them. Exit 77 where there is no such compiler.
set -euo pipefail

source=$1
compiler=$2
type=$3
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
if ! command -v "$compiler" >/dev/null; then
    echo "$compiler is not here"
    exit 77
fi

cmake -G Ninja -S "$source" -B "$build" -DCMAKE_C_COMPILER="$compiler" -DCMAKE_BUILD_TYPE="$type" -DREDLOCK_TESTS=OFF \
    -DREDLOCK_EXAMPLES=OFF >/dev/null
cmake --build "$build" --target redlock-sim -j 1 >/dev/null
"$source/tests/sim/hashes.sh" "$build/cli/redlock-sim"
echo "$compiler $type: the same"
