#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Each public header compiles alone, as C11 and as C++17, with nothing defined and every warning an error.
# usage: header.sh INCLUDE_DIR
set -euo pipefail
warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
tried=0
compile() { # language standard compiler
    local header
    command -v "$3" > /dev/null || return 0
    for header in redlock.h redlock/admin.h redlock/base.h redlock/fence.h redlock/metrics.h; do
        # Twice: the guard must work.
        printf '#include <%s>\n#include <%s>\n' $header $header |
            "$3" -x "$1" -std="$2" "${warnings[@]}" -I "$include" -fsyntax-only -
    done
    tried=$((tried + 1))
}
include=$1
for c in gcc clang; do compile c c11 $c; done
for cxx in g++ clang++; do compile c++ c++17 $cxx; done
[ $tried -ge 2 ]
# 400 were enough for exclusive locks; observing leaders is for every program, like taking locks, and not only for
# administrators; and so are what the contract says of forks, cancellation, exit and stacks, why a lock cannot be had, the login,
# and where nodes come from.
lines=$(wc -l < "$include/redlock.h")
[ "$lines" -le 550 ] || { echo "redlock.h has $lines lines; what only administrators need goes to redlock/admin.h" >&2; exit 1; }
echo "each header compiles alone ($tried compilers and languages)"
