#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# scripts/package, with what it needs: skipped (77) where that is not installed.
# usage: packages.sh SOURCE_DIR clean_root|reproduce|rpm OUTPUT_DIR
set -euo pipefail
source=$1 what=$2 output=$3/$2
case $what in
clean_root) verb=test needed=(mmdebstrap autopkgtest) ;;
reproduce) verb=reproduce needed=(dh faketime apt-get) ;;
rpm) verb=rpm needed=(rpmbuild) ;;
esac
for tool in "${needed[@]}"; do
    command -v "$tool" > /dev/null || { echo "skipped: there is no $tool"; exit 77; }
done
"$source/scripts/package" "$verb" -o "$output" || exit $?
if [ "$what" = rpm ]; then
    for package in redlock redlock-serve redlock-node libredlock0 libredlock-devel redlock-doc; do
        compgen -G "$output/rpm/$package-[0-9]*.rpm" > /dev/null || { echo "there is no package $package"; exit 1; }
    done
    for package in redlock libredlock0; do
        rpm -qp --requires "$output/rpm/$package"-[0-9]*.rpm | grep '^libssl' > /dev/null || { echo "$package does not require OpenSSL"; exit 1; }
    done
    # Not grep -q: it would close the pipe while rpm still writes, and pipefail would call that a failure.
    rpm -qplv "$output"/rpm/redlock-node-[0-9]*.rpm | grep '^-rwxr-xr-x .*/redlock/redlock.so$' > /dev/null ||
        { echo "redlock.so of redlock-node is not executable"; exit 1; }
fi
