#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# redlock.h compiles alone, as C11 and as C++17, with nothing defined and every warning an error.
# usage: header.sh INCLUDE_DIR
set -euo pipefail
warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
tried=0
compile() { # language standard compiler
    command -v "$3" > /dev/null || return 0
    # Twice: the guard must work.
    printf '#include <redlock.h>\n#include <redlock.h>\n' | "$3" -x "$1" -std="$2" "${warnings[@]}" -I "$include" -fsyntax-only -
    tried=$((tried + 1))
}
include=$1
for c in gcc clang; do compile c c11 $c; done
for cxx in g++ clang++; do compile c++ c++17 $cxx; done
[ $tried -ge 2 ]
echo "redlock.h compiles alone ($tried compilers and languages)"
