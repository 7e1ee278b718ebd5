#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Every C file is as clang-format writes it, but for the examples, which have a layout of their own.
# usage: format.sh SOURCE_DIR
set -euo pipefail
cd "$1"

# Another major version breaks some lines elsewhere.
wanted=14
version=$(clang-format --version 2> /dev/null | sed -n 's/.*version \([0-9]*\)\..*/\1/p' || true)
if [ "$version" != $wanted ]; then
    echo "skipped: clang-format is version ${version:-none} here, and the sources are formatted with version $wanted"
    exit 77
fi
mapfile -t files < <(find src include serve sim cli top web tests bench bindings -name '*.[ch]' -type f | sort)
[ ${#files[@]} -ge 300 ]
clang-format --dry-run -Werror "${files[@]}" 2>&1 | grep -E 'error: ' | cut -d: -f1 | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)/\2: \1 places; clang-format -i \2/' > /dev/stderr || true
clang-format --dry-run -Werror "${files[@]}" 2> /dev/null
echo "${#files[@]} files"
