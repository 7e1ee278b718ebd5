#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What the code computes is what the proof is about (proof/README.md).
# usage: arithmetic.sh CODE_PROGRAM PROOF_PROGRAM COUNT SEED [DEPTH...]
set -euo pipefail
[ -x "$2" ] || { echo "not extracted, because Coq is missing: scripts/proof-extract ${2%/*}"; exit 77; }
"$1" "${@:3}" | "$2" "$3"
