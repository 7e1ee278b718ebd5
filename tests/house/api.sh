#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# doxygen makes a manual page of every function that the library exports, and each page says what the function does.
# usage: api.sh BUILD_DIR SOURCE_DIR
set -euo pipefail
if ! command -v doxygen > /dev/null; then
    echo "skipped: doxygen is not installed"
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
{ cat "$1/Doxyfile"; echo "OUTPUT_DIRECTORY = $scratch"; } | doxygen -
pages=0
while read -r name; do
    page=$scratch/man/man3/$name.3
    [ -s "$page" ] || { echo "$name has no page"; exit 1; }
    # MAN_LINKS: the page points to that of its header, which has a section on it.
    page=$scratch/man/$(sed -n 's/^\.so //p' "$page")
    # What stands between the function's heading and the next one is its comment.
    text=$(awk -v name="$name" '/^\.SS / { inside = index($0, " " name " (") || index($0, "*" name " (") } inside' "$page")
    [ "$(wc -w <<< "$text")" -ge 12 ] || { echo "$name: its page does not say what it does"; exit 1; }
    pages=$((pages + 1))
done < "$2/packaging/symbols.txt"
# The text of the main page, without what stands around each page.
page=$(sed -n '/<div class="contents">/,/<!-- contents -->/p' "$scratch/html/index.html" | sed 's/<[^>]*>/ /g')
[[ $page == *redlock/admin.h* && $page == *redlock_acquire* && $(wc -w <<< "$page") -gt 80 ]] || { echo "the main page is blank"; exit 1; }
echo "$pages functions have a manual page"
