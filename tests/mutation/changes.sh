#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A share of the changes that scripts/mutate makes, by the number in REDLOCK_TEST_SHARE ("all" for all). Fails for a
# survivor that tests/mutation/argued.txt does not name.
# usage: changes.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
share=${REDLOCK_TEST_SHARE:-0}
which=()
if [ "$share" != all ]; then which=(--share "$share/144"); fi
exec "$1/scripts/mutate" --judged --build-dir "$2" --until behaviour --jobs 1 "${which[@]}"
