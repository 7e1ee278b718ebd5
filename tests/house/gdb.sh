#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# scripts/gdb/redlock.py shows a client, a lock and a node of a running program, and no password.
# usage: gdb.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
if ! command -v gdb > /dev/null; then
    echo "skipped: gdb is not installed"
    exit 77
fi
shown=$("$1/cli/redlock" up -q --mode classic -- gdb -batch -nx -x "$2/scripts/gdb/redlock.py" \
    -ex 'set breakpoint pending on' -ex 'break redlock_lock_free' -ex run -ex up \
    -ex 'print *lock' -ex 'print *client' "$1/examples/ten_lines" 2>&1) || { echo "$shown"; exit 1; }
expect() { grep -qE -- "$1" <<< "$shown" || { echo "not shown: $1"; echo "$shown"; exit 1; }; }
expect 'nightly: held, validity ends at [0-9.]+ ms, may be on node1\.\.5, fence 0, renewals 0'
expect 'client of 5 nodes, mode classic, acquired 1, released 0, lost 0'
expect 'node5 = connected, granted, [0-9]+ answers awaited, [1-9][0-9]* sent'
echo "a lock, a client and its nodes are shown"
