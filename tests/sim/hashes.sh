#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# usage: hashes.sh REDLOCK-SIM [--update]
# Compares the hashes of the traces of 200 seeds, and of some with each assumption broken or in guarded mode, with hashes.txt.
# They change when the protocol or the world does: then look at what changed, and rewrite them on purpose with --update.
set -euo pipefail

sim=$1
golden=$(dirname "$0")/hashes.txt

hashes() {
    "$sim" --hash --seeds 200
    for assumption in data-loss clock-step pause-write mixed-config; do
        echo "$assumption"
        "$sim" --hash --seeds 20 --break $assumption
    done
    echo "biased"
    "$sim" --hash --seeds 20 --biased
    echo "guarded, biased"
    "$sim" --hash --seeds 20 --mode guarded --biased
    for nodes in stock mixed native; do
        echo "guarded, $nodes nodes"
        "$sim" --hash --seeds 20 --mode guarded --$nodes
        echo "guarded, $nodes nodes, shared"
        "$sim" --hash --seeds 20 --mode guarded --$nodes --shared
    done
}

if [ "${2:-}" = --update ]; then
    hashes >"$golden"
    exit
fi
got=$(mktemp)
trap 'rm -f "$got"' EXIT
hashes >"$got"
if ! diff -u "$golden" "$got" | head -20 >&2 || ! cmp -s "$golden" "$got"; then
    echo "hashes.sh: traces are not those of hashes.txt" >&2
    exit 1
fi
