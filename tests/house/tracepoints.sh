#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The tracepoints are in a program or library, each with seven arguments, as docs/operate/metrics.md lists them.
# usage: tracepoints.sh FILE DOCUMENT
set -euo pipefail
export LC_ALL=C
found=$(readelf -n "$1" | awk '$1 == "Provider:" { provider = $2 } $1 == "Name:" && provider == "redlock" { name = $2 }
    $1 == "Arguments:" && name != "" { print name, NF - 1; name = "" }' | sort -u)
listed=$(awk -F '[:|]' '$2 ~ /redlock$/ { sub(/[^a-z].*/, "", $3); print $3, 7 }' "$2" | sort)
[ -n "$listed" ] || { echo "$2 lists no tracepoints" >&2; exit 1; }
diff -u --label "$2" --label "notes of $(basename "$1")" - <(printf '%s\n' "$found") <<< "$listed"
echo "$(wc -l <<< "$found") tracepoints in $(basename "$1")"
