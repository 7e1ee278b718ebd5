#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# libredlock.so exports what packaging/symbols.txt lists, and the public headers declare just that. A line that disappears
# from the list breaks programs: it takes a new soname. libredlock.a defines no other name either, or a program that has
# a function of that name does not link.
# usage: symbols.sh LIBRARY ARCHIVE SOURCE_DIR
set -euo pipefail
export LC_ALL=C
list=$3/packaging/symbols.txt
sort -c -u "$list"
exported=$(nm -D --defined-only --format=posix "$1" | awk '$2 != "A" { sub(/@.*/, "", $1); print $1 }' | sort)
diff -u --label packaging/symbols.txt "$list" --label "exported by $(basename "$1")" - <<< "$exported"
external=$(nm --extern-only --defined-only --format=posix "$2" | awk 'NF > 1 { print $1 }' | sort)
diff -u --label packaging/symbols.txt "$list" --label "defined in $(basename "$2")" - <<< "$external"
declared=$(cat "$3/include/redlock.h" "$3"/include/redlock/*.h | tr '\n' ' ' | sed 's/REDLOCK_API/\n&/g' | sed -n 's/^REDLOCK_API [^(;]*\(redlock_[a-z_]*\)(.*/\1/p' | sort)
diff -u --label packaging/symbols.txt "$list" --label "declared in include/" - <<< "$declared"
echo "$(wc -l < "$list") symbols, as listed"
