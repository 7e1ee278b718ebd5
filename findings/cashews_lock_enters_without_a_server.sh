#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Subject:   cashews 7.6.0 (PyPI) on redis-py 8.1.0, Cache.lock() while the server is away
# Behaviour: "async with cache.lock(key, expire=...)" enters its block although no server can be reached, for each caller at
#            the same time. A warning in the log is all that tells. The rule for a cache (an error of the server is a miss) holds
#            for its locks too. With suppress=False in setup(), the same line raises CacheBackendInteractionError.
# Expected:  that a lock that cannot be taken raises, whatever reads and writes do.
# Seen:      with the defaults, two tasks are in the block together; with suppress=False none is.
# For us:    a program that moves from this lock to ours sees errors where it saw none.
# Needs:     python3 with venv and pip
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install cashews==7.6.0 redis==8.1.0

venv/bin/python - 2> log << 'PYTHON' || { cat log >&2; exit 1; }
import asyncio, socket, sys
from cashews import Cache

with socket.socket() as unused:
    unused.bind(("127.0.0.1", 0))
    url = f"redis://127.0.0.1:{unused.getsockname()[1]}"


async def inside_at_once(**options):
    """How many of two tasks were in the block at the same time."""
    cache, inside, most = Cache(), 0, 0
    cache.setup(url, **options)

    async def task():
        nonlocal inside, most
        async with cache.lock("job", expire=30):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(1)
            inside -= 1
    errors = await asyncio.gather(task(), task(), return_exceptions=True)
    return most, sorted({type(error).__name__ for error in errors if error})


async def main():
    found = await inside_at_once(), await inside_at_once(suppress=False)
    print(f"defaults: {found[0][0]} at once, errors {found[0][1]}; suppress=False: {found[1][0]} at once, errors {found[1][1]}")
    if found != ((2, []), (0, ["CacheBackendInteractionError"])):
        sys.exit("cashews_lock_enters_without_a_server: changed: expected 2 at once without errors, and 0 with suppress=False")
asyncio.run(main())
PYTHON
