# SPDX-License-Identifier: BSD-2-Clause
"""A client of the library, opened for the threads of a process or for one event loop.

The library's callbacks make notes in C (shim.c). A core reads them: on the loop when its descriptor is readable, or on a
thread of its own, which is started when something has to wait.
"""
import asyncio
import concurrent.futures
import itertools
import logging
import os
import threading
import weakref
from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol, Tuple, Union, cast

from redlock._errors import error_of, text
from redlock._shim import ffi, lib

NOTES = 256
FEW = 4  # operations in flight that start at once; with more, those of one turn of the loop start together
Result = Union["asyncio.Future[int]", "concurrent.futures.Future[int]"]

log = logging.getLogger("redlock")
_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


class Noted(Protocol):
    """A lock or an observer."""

    def noted(self, note: Any) -> None: ...


class Core:
    def __init__(self, nodes: Any, options: Mapping[str, Any]) -> None:
        self._forks = _forks
        self.ids = itertools.count(1)
        self.pending: Dict[int, Result] = {}
        self.watched: Dict[int, "weakref.ref[Noted]"] = {}
        self._notes = ffi.new("struct note[]", NOTES)
        given, keep = ffi.new("struct redlock_client_options *"), []
        lib.redlock_client_options_fill(given, ffi.sizeof("struct redlock_client_options"))
        for name, value in options.items():
            keep.append(ffi.new("char[]", value) if isinstance(value, bytes) else value)
            setattr(given, name, keep[-1])
            if name == "key_prefix":
                given.key_prefix_bytes = len(value)
            elif isinstance(value, bytes) and b"\0" in value:
                raise ValueError(f"{name} contains a NUL")
        shim, error = ffi.new("struct shim **"), ffi.new("struct redlock_error *")
        result = lib.shim_open(nodes, given, shim, error)
        if result != lib.REDLOCK_OK:
            raise error_of(result, text(error.text))
        self.shim = ffi.gc(shim[0], lib.shim_free)
        self.quick = given.node_timeout_ms <= 100  # one try blocks for no longer, and may do so inside the library
        self.quorum = int(lib.shim_nodes(self.shim)) // 2 + 1

    @property
    def here(self) -> bool:
        """False in a child that was forked since."""
        return self._forks == _forks

    def dispatch(self) -> None:
        """Hands the notes to whom they are for."""
        notes, count = self._notes, NOTES
        while count == NOTES:
            count = lib.shim_process(self.shim, notes, NOTES)
            for note in ffi.unpack(notes, count):
                if note.done:
                    future = self.pending.pop(note.id, None)
                    if future is not None and not future.done():
                        future.set_result(note.result)
                if note.lost or note.leader:
                    self._hand(note)

    def _hand(self, note: Any) -> None:
        found = self.watched.get(note.id, lambda: None)()
        try:
            if found is not None:
                found.noted(note)
        except BaseException:  # of the program's own callback; this thread goes on
            log.exception("on_lost")

    def drop(self, key: int) -> None:
        """What waits for the end of an operation of a lock that is given up."""
        future = self.pending.pop(key, None)
        if future is not None and not future.done() and self._may_tell():
            future.set_result(lib.REDLOCK_CANCELLED)

    def _may_tell(self) -> bool:
        return True


class ThreadCore(Core):
    _thread: Optional[threading.Thread] = None

    def __init__(self, nodes: Any, options: Mapping[str, Any]) -> None:
        super().__init__(nodes, options)
        self._starting = threading.Lock()

    def listen(self) -> None:
        """From now on notes are handed out."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=_listen, args=(weakref.ref(self), self.shim), name="redlock", daemon=True)
                self._thread.start()

    def hands_out(self) -> bool:
        """Whether this is the thread that runs callbacks."""
        return threading.current_thread() is self._thread

    def __del__(self) -> None:
        if hasattr(self, "shim"):
            lib.shim_stop(self.shim)


def _listen(found: Callable[[], Optional[Core]], shim: Any) -> None:
    while lib.shim_wait(shim):
        core = found()
        if core is None:
            return
        core.dispatch()
        del core


class LoopCore(Core):
    """The loop reads the sockets: a lock costs no switch between threads."""

    def __init__(self, nodes: Any, options: Mapping[str, Any], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(nodes, options)
        self._batches: Dict[Tuple[int, int], List[Tuple[Any, int]]] = {}
        self._loop, found = weakref.ref(loop), weakref.ref(self)
        self._fd = lib.shim_fd(self.shim)

        def readable() -> None:
            core = found()
            if core is not None:
                core.dispatch()

        loop.add_reader(self._fd, readable)

    def start(self, place: Any, key: int, operation: int, amount: int) -> "asyncio.Future[int]":
        loop = asyncio.get_running_loop()
        if loop is not self._loop():
            raise RuntimeError("the lock was acquired in another event loop, which alone can use it")
        future: "asyncio.Future[int]" = loop.create_future()
        if key in self.pending:
            future.set_result(int(lib.REDLOCK_BUSY))
            return future
        self.pending[key] = future
        if len(self.pending) > FEW and operation <= lib.SHIM_RELEASE:
            if not self._batches:
                loop.call_soon(self._flush)
            self._batches.setdefault((operation, amount), []).append((place, key))
            return future
        result = lib.shim_start(place, operation, amount)
        if result != lib.REDLOCK_OK:
            self._fail(key, result)
        return future

    async def start_next(self, place: Any, key: int, operation: int, amount: int) -> int:
        """Behind the operation under way, also behind one whose task was cancelled."""
        while key in self.pending:
            if self.pending[key].done():
                self.pending[key] = asyncio.get_running_loop().create_future()
            await asyncio.wait([cast("asyncio.Future[int]", self.pending[key])])
        return await self.start(place, key, operation, amount)

    def _may_tell(self) -> bool:
        return asyncio._get_running_loop() is self._loop()

    def _fail(self, key: int, result: int) -> None:
        future = self.pending.pop(key)
        if not future.done():
            future.set_result(result)

    def _flush(self) -> None:
        batches, self._batches = self._batches, {}
        for (operation, amount), batch in batches.items():
            batch = [each for each in batch if each[1] in self.pending]  # the others were cancelled, and are freed
            results = ffi.new("int[]", len(batch))
            lib.shim_start_many([place for place, _ in batch], len(batch), operation, amount, results)
            for (_, key), result in zip(batch, results):
                if result != lib.REDLOCK_OK:
                    self._fail(key, result)

    def __del__(self) -> None:
        loop = self._loop() if hasattr(self, "_loop") else None
        if loop is None or not self.here or loop.is_closed():
            return
        fd, shim = self._fd, self.shim  # the descriptor lives until the loop has let go of it

        def leave(_shim: Any = shim) -> None:
            loop.remove_reader(fd)

        if asyncio._get_running_loop() is loop:
            leave()
        else:
            try:
                loop.call_soon_threadsafe(leave)
            except RuntimeError:  # closed meanwhile
                pass
