#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The core does no I/O, reads no clock, allocates nothing: its objects need nothing but memory functions and assert.
# usage: symbols.sh NM OBJECT...
set -eu
nm=$1
shift
[ $# -gt 0 ] || { echo "no objects given" >&2; exit 1; }
defined=$("$nm" --defined-only "$@" | awk 'NF == 3 { print $3 }')
undefined=$("$nm" -u "$@" | awk '$1 == "U" { print $2 }' | sort -u)
bad=0
for symbol in $undefined; do
    case $symbol in
    memcpy | memmove | memset | memcmp | strcmp | strlen | __assert_fail | __stack_chk_fail | _GLOBAL_OFFSET_TABLE_) continue ;;
    __memcpy_chk | __memmove_chk | __memset_chk) continue ;; # the same with a check of the length
    __divdi3 | __moddi3 | __udivdi3 | __umoddi3 | __divmoddi4 | __udivmoddi4) continue ;; # gcc's own, on 32 bits
    __ctzdi2 | __stack_chk_fail_local | __stack_chk_guard) continue ;; # and elsewhere
    __gcov_* | __llvm_*) continue ;; # a coverage build
    esac
    if ! printf '%s\n' "$defined" | grep -Fqx -- "$symbol"; then
        echo "the core needs $symbol, which is not its to need" >&2
        bad=1
    fi
done
exit $bad
