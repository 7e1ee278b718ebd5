#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# On a machine that lacks what the tests need, the release preset configures without them and says so; a build that asks
# for the tests fails and names the cure.
set -eu
source=$1
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT

# A pkg-config that knows no cmocka.
cat > "$room/pkg-config" <<'EOF'
#!/bin/sh
case " $* " in *cmocka*) exit 1 ;; esac
exec pkg-config "$@"
EOF
chmod +x "$room/pkg-config"

configure() {
    (cd "$source" && cmake --preset "$1" -B "$room/$1" -DPKG_CONFIG_EXECUTABLE="$room/pkg-config" > "$room/log" 2>&1)
}

configure release || { cat "$room/log"; echo "the release preset needs the tests' packages"; exit 1; }
grep -q 'Building without the tests, because there is no cmocka: scripts/install-deps installs what they need. The measurements of bench/ are left out too' "$room/log" || {
    cat "$room/log"
    echo "nothing says that there are no tests"
    exit 1
}
[ ! -e "$room/release/tests" ] || { echo "there are tests"; exit 1; }
if configure debug; then
    echo "the debug preset builds without the tests"
    exit 1
fi
grep -q 'The tests need cmocka: scripts/install-deps installs' "$room/log" || { cat "$room/log"; exit 1; }
