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

# The file that every command reads belongs to no package: it is made once, and only what was made is deleted. The scriptlets
# run as they are in the package, on files of our own.
scriptlet() { # TAG ARGUMENT
    rpm -qp --qf "%{$1}" "$serve" | sed "s|/etc/redlock.conf|$scratch/redlock.conf|g; s|/usr/share/redlock/redlock.conf|$source/packaging/redlock.conf|g; s|/run/systemd/system|$scratch/none|g" | sh -es "$2"
}
configuration_file() {
    local serve conf
    serve=$(compgen -G "$output/rpm/redlock-serve-[0-9]*.rpm")
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    conf=$scratch/redlock.conf
    if rpm -qpl "$output"/rpm/*.rpm | grep '^/etc/redlock.conf$'; then echo "/etc/redlock.conf belongs to a package"; exit 1; fi
    rpm -qpl "$serve" | grep '^/usr/share/redlock/redlock.conf$' > /dev/null || { echo "redlock-serve has nothing to make /etc/redlock.conf from"; exit 1; }
    scriptlet POSTIN 1
    cmp "$conf" "$source/packaging/redlock.conf" || { echo "redlock-serve does not make /etc/redlock.conf"; exit 1; }
    scriptlet PREUN 0
    [ ! -e "$conf" ] || { echo "redlock-serve leaves the file behind that it made"; exit 1; }
    for order in before after; do
        if [ $order = after ]; then scriptlet POSTIN 1; fi
        echo 'nodes = redis://db1' >> "$conf"
        cp "$conf" "$scratch/mine"
        for step in 'POSTIN 1' 'POSTIN 2' 'PREUN 1' 'PREUN 0'; do
            # shellcheck disable=SC2086 # two words
            scriptlet $step
            cmp "$conf" "$scratch/mine" || { echo "$step takes away /etc/redlock.conf, which somebody wrote $order the installation"; exit 1; }
        done
        rm "$conf"
    done
}

if [ "$what" = rpm ]; then
    configuration_file
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
