#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# What scripts/package builds agrees with what the project is: one version everywhere, each installed file in a package, and
# the documents that messages and the manual name among the installed ones.
# usage: packaging.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 build=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
version=$(sed -n 's/^#define REDLOCK_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$source/include/redlock/base.h" | paste -sd .)
same() { # WHAT SAID
    [ "$2" = "$version" ] || { echo "$1 says version '$2', include/redlock/base.h $version"; exit 1; }
}
same packaging/debian/changelog "$(sed -n '1s/^redlock (\([^-]*\)-.*/\1/p' "$source/packaging/debian/changelog")"
same packaging/rpm/redlock.spec "$(sed -n 's/^Version: *//p' "$source/packaging/rpm/redlock.spec")"
same packaging/alpine/APKBUILD "$(bash -euc '. "$1" && echo "$pkgver"' sh "$source/packaging/alpine/APKBUILD")"
same "the last entry of packaging/rpm/redlock.spec" "$(sed -n 's/^\* .* - \(.*\)-[0-9]*$/\1/p;T;q' "$source/packaging/rpm/redlock.spec")"

# The project's page, of which CMakeLists.txt is the place (RELEASING.md).
page=$(sed -n 's/.* HOMEPAGE_URL \([^ )]*\).*/\1/p' "$source/CMakeLists.txt")
for file in README.md SECURITY.md packaging/debian/control packaging/debian/copyright packaging/rpm/redlock.spec packaging/alpine/APKBUILD; do
    pages=$(grep -oE '(project.s page[^<]*<|^(Homepage|Source|URL): +|^url=")https://[^>"]*' "$source/$file" | grep -o 'https:.*' | sort -u)
    [ "$pages" = "$page" ] || { echo "$file says that the project's page is '$pages', CMakeLists.txt '$page'"; exit 1; }
done

DESTDIR=$scratch cmake --install "$build" > /dev/null
bin=$(find "$scratch" -path '*/bin/redlock' -type f)
prefix=${bin%/bin/redlock}
grep -q "^URL: $page\$" "$(find "$prefix" -name redlock.pc)" || { echo "redlock.pc does not name $page"; exit 1; }
docs=$(find "$prefix" -path '*/doc/redlock' -type d)
named=$(grep -aohE '/doc/redlock/[a-z-]+\.md' "$prefix/bin/redlock" "$prefix/libexec/redlock"/* "$prefix"/share/man/man?/* | sort -u)
[[ $named == */safety.md* ]] || { echo "no message names safety.md"; exit 1; }
grep -q "runbook: .*/doc/redlock/runbook.md#" "$docs/observability/alerts.yml" || { echo "the alerts do not name the installed runbook"; exit 1; }
for document in $named; do
    [ -s "$docs/${document##*/}" ] || { echo "a message or the manual names $document, which is not installed"; exit 1; }
done

# Each installed file is in the list of exactly one Debian package (dh_missing and dpkg check the same, later).
lists=$source/packaging/debian
unclaimed=
# shellcheck disable=SC2016
patterns=$(sed 's|${env:units}|usr/lib/systemd/system|; s|^usr/lib/\*/|usr/lib*/|' "$lists"/*.install)
while read -r file; do
    path=${file#"$prefix/"}
    claims=0
    while read -r pattern _; do
        # shellcheck disable=SC2254
        case usr/$path in $pattern | $pattern/*) claims=$((claims + 1)) ;; esac
    done <<< "$patterns"
    case $path in share/doc/redlock/examples/redlock.conf) claims=1 ;; esac
    [ $claims -eq 1 ] || unclaimed+=" $path"
done < <(find "$prefix" -type f -o -type l)
[ -z "$unclaimed" ] || { echo "in no Debian package, or in two:$unclaimed"; exit 1; }
echo "version $version; $(wc -w <<< "$named") named documents are installed; each file is in one package"
