#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What operators do in the simulator is a run of the proved system (proof/README.md).
# usage: membership_traces.sh REDLOCK_SIM CHECK_MEMBERSHIP SEEDS START RUNS EVENTS
set -euo pipefail
[ -x "$2" ] || { echo "not extracted, because Coq is missing: scripts/proof-extract ${2%/*}"; exit 77; }
"$1" --mode guarded --operators --seeds "$3" --start "$4" --steps | "$2" "$5" "$6"
"$1" --mode guarded --operators --seeds "$3" --start "$4" --biased --steps | "$2" "$5" "$6"
