#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# usage: hashes.sh REDLOCK-SIM [--update]
# Compares the hashes of the traces of the seeds in hashed_worlds.txt with hashes.txt.
# They change when the protocol or the world does: then look at what changed, and rewrite them on purpose with --update.
set -euo pipefail

sim=$1
golden=$(dirname "$0")/hashes.txt

hashes() {
    grep -v '^#' "$(dirname "$0")/hashed_worlds.txt" | while read -r options; do
        echo "$options"
        # shellcheck disable=SC2086 # each word is an argument
        "$sim" --hash $options </dev/null
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
