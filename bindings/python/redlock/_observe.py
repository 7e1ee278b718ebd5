# SPDX-License-Identifier: BSD-2-Clause
"""Who leads."""
import asyncio
import threading
import weakref
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterator, NamedTuple, Optional, Union

from redlock._core import Core
from redlock._errors import error_of, text
from redlock._shim import ffi, lib

if TYPE_CHECKING:
    from redlock._client import Client


class Leader(NamedTuple):
    """`candidate` leads in `term`; both are None if nobody leads (known) or too few nodes answer (not known)."""

    known: bool
    candidate: Optional[bytes]
    term: Optional[int]
    sure_until_ns: int

    @property
    def sure(self) -> float:
        """For how many seconds no other client leads, unless this one resigned or an operator broke its lock."""
        return max(0.0, (self.sure_until_ns - int(lib.redlock_now_ns())) / 1e9)


class _Watch:
    def __init__(self, core: Core, name: bytes, changed: Union[threading.Event, asyncio.Event]) -> None:
        self.changed, self._core, self._key = changed, core, next(core.ids)
        place, error, buffer = ffi.new("struct place **"), ffi.new("struct redlock_error *"), ffi.from_buffer(name)
        core.watched[self._key] = weakref.ref(self)
        result = lib.shim_observe(core.shim, self._key, buffer, len(name), place, error)
        if result != lib.REDLOCK_OK:
            raise error_of(result, text(error.text))
        self._place = ffi.gc(place[0], lib.shim_place_free)

    def noted(self, note: Any) -> None:
        self.changed.set()

    def take(self) -> Leader:
        self.changed.clear()
        found = ffi.new("struct leader *")
        lib.shim_leader(self._place, found)
        known = found.state == lib.REDLOCK_LEADER_KNOWN
        return Leader(found.state != lib.REDLOCK_LEADER_UNKNOWN, bytes(ffi.unpack(found.id, found.id_bytes)) if known else None,
                      int(found.term) if known else None, int(found.sure_until_ns))

    def __del__(self) -> None:
        self._core.watched.pop(self._key, None)


class Observer:
    """Iterate over it: each turn waits for a change. Of several changes in a row only the last may be seen."""

    def __init__(self, client: "Client", name: bytes) -> None:
        self._client, self._name = client, name

    def __iter__(self) -> Iterator[Leader]:
        core = self._client._thread_core()
        core.listen()
        watch, changed = None, threading.Event()
        watch = _Watch(core, self._name, changed)
        while True:
            changed.wait()
            yield watch.take()

    async def __aiter__(self) -> AsyncIterator[Leader]:
        changed = asyncio.Event()
        watch = _Watch(self._client._loop_core(), self._name, changed)
        while True:
            await changed.wait()
            yield watch.take()
