#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# usage: trace_notices.sh DRIVER TRACE OLD NEW: a trace with one byte changed must fail, and --update must restore it.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
sed "s/$3/$4/" "$2" >"$dir/changed.trace"
if cmp -s "$2" "$dir/changed.trace"; then
    echo "nothing to change in $2" >&2
    exit 1
fi
if "$1" "$dir/changed.trace" >"$dir/diff" 2>&1; then
    echo "a changed trace passed" >&2
    exit 1
fi
grep -q "$4" "$dir/diff" # the difference is shown
"$1" --update "$dir/changed.trace"
cmp "$2" "$dir/changed.trace"
