#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A share of the changes that scripts/mutate-lua makes in the judged scripts, by the number in REDLOCK_TEST_SHARE ("all" for
# all). Fails for a survivor that tests/mutation/argued_lua.txt does not name.
# usage: scripts.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
share=${REDLOCK_TEST_SHARE:-0}
which=(--argued)
if [ "$share" != all ]; then which=(--share "$share/24"); fi
exec "$1/scripts/mutate-lua" --judged --build-dir "$2" --jobs 1 "${which[@]}"
