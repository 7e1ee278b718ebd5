#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Every shell script of the tree passes shellcheck (found by its first line or its name, so that none is forgotten).
# usage: shell.sh SOURCE_DIR
set -euo pipefail
cd "$1"
scripts=()
while IFS= read -r file; do
    if [[ $file == *.sh || $file == *.bash ]] || head -n 1 "$file" | grep -qaE '^#!.*[/ ](ba)?sh$'; then scripts+=("$file"); fi
done < <(find .ci scripts tests packaging cli bench examples models -type f 2> /dev/null | sort)
[ ${#scripts[@]} -ge 5 ]
shellcheck -s bash "${scripts[@]}"
echo "${#scripts[@]} scripts"
