# SPDX-License-Identifier: BSD-2-Clause
"""Distributed locks held on a majority of independent Redis or Valkey servers.

    with redlock.Client("redis://db1,redis://db2,redis://db3").lock("nightly", ttl=30) as lock:
        ...  # lock.fence goes to the resource; lock.check() raises Lost
"""
from redlock._client import Client
from redlock._errors import BadArgument, Busy, Error, Expired, Forked, Held, Lost, NoQuorum, text
from redlock._lock import AsyncLock, Lock
from redlock._observe import Leader, Observer
from redlock._shim import lib as _lib

__all__ = ["AsyncLock", "BadArgument", "Busy", "Client", "Error", "Expired", "Forked", "Held", "Leader", "Lock", "Lost", "NoQuorum",
           "Observer"]
__version__ = text(_lib.redlock_version())
