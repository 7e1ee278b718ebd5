# SPDX-License-Identifier: BSD-2-Clause
"""Locks, for blocking code and for asyncio."""
import asyncio
import time
import weakref
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, List, Optional, Tuple, Type, TypeVar

from redlock._core import Core, LoopCore, ThreadCore
from redlock._errors import Error, Held, error_of, explain, text
from redlock._shim import ffi, lib

if TYPE_CHECKING:
    from redlock._client import Client

CoreT = TypeVar("CoreT", bound=Core)


PASSING = (lib.REDLOCK_HELD, lib.REDLOCK_NO_QUORUM, lib.REDLOCK_EXPIRED)  # another try may have another result


def milliseconds(seconds: Optional[float]) -> int:
    """None and infinity: for ever; a time that has passed: at once."""
    return int(lib.REDLOCK_WAIT_FOREVER) if seconds is None or seconds == float("inf") else max(0, round(seconds * 1000))


class BaseLock(Generic[CoreT]):
    """What both kinds of lock have. None of this asks a node."""

    _core: Optional[CoreT] = None
    _place: Any = None  # in the library; made when it is first acquired, and anew after a fork
    _key = 0
    _watched = False

    def __init__(self, client: "Client", resources: List[bytes], options: Dict[str, Any], wait: Optional[float],
                 on_lost: Optional[Callable[[Any], None]]) -> None:
        self._client, self._resources, self._options, self._wait = client, resources, options, wait
        self._on_lost = on_lost

    @property
    def name(self) -> str:
        return ", ".join(f"'{resource.decode(errors='replace')}'" for resource in self._resources)

    @property
    def held(self) -> bool:
        """True: the lock is surely ours now."""
        return self.validity > 0

    @property
    def validity(self) -> float:
        """For how many seconds the lock is still surely ours; 0: it is not."""
        return float(lib.shim_validity_ms(self._place)) / 1000 if self._is_here() else 0.0

    @property
    def fence(self) -> Optional[int]:
        """The fencing token, which grows with each holder: give it to the resource. None: not held, or classic mode."""
        return int(lib.shim_fence(self._place)) or None if self._is_here() else None

    @property
    def slot(self) -> Optional[int]:
        """Which of the slots is held, from 1."""
        return int(lib.shim_slot(self._place)) or None if self._is_here() else None

    @property
    def token(self) -> Optional[bytes]:
        """What stands under the lock's key on the nodes. None: not held."""
        if not self._is_here():
            return None
        to = ffi.new("char[]", lib.REDLOCK_TOKEN_BYTES_MAX)
        size = lib.shim_token(self._place, to, lib.REDLOCK_TOKEN_BYTES_MAX)
        return bytes(ffi.unpack(to, size)) if size else None

    def check(self) -> None:
        """Raises Lost, or Forked, unless the lock is held. It reads memory only: call it before each step of the work."""
        self._check_made()
        if lib.shim_validity_ms(self._place) == 0:
            raise self._error(lib.REDLOCK_LOST)

    def noted(self, note: Any) -> None:
        """The lock is lost."""
        if self._on_lost is not None:
            self._on_lost(self)

    # ---- below ----

    def _is_here(self) -> bool:
        return self._place is not None and self._core is not None and self._core.here

    def _check_process(self) -> None:
        if self._core is not None and not self._core.here:
            raise error_of(lib.REDLOCK_FORKED, f"{self.name}: acquired before fork, by the parent process, which keeps it")

    def _check_made(self) -> None:
        self._check_process()
        if self._place is None:
            raise self._error(lib.REDLOCK_LOST)

    def _error(self, result: int) -> Exception:
        return explain(self._place if self._is_here() else None, result, self.name)

    def _make(self, core: CoreT) -> CoreT:
        """The lock in the library, for an acquisition."""
        if self._place is not None and self._core is core:
            return core
        if self.held:  # by another event loop
            raise self._error(lib.REDLOCK_BUSY)
        self._forget()
        options = ffi.new("struct redlock_lock_options *")
        lib.redlock_lock_options_fill(options, ffi.sizeof("struct redlock_lock_options"))
        for name, value in self._options.items():
            setattr(options, name, value)
        names = [ffi.from_buffer(resource) for resource in self._resources]
        resources = ffi.new("struct redlock_bytes[]", [(name, len(name)) for name in names])
        place, error, key = ffi.new("struct place **"), ffi.new("struct redlock_error *"), next(core.ids)
        result = lib.shim_lock_new(core.shim, key, resources, len(names), options, self._watched, place, error)
        if result != lib.REDLOCK_OK:
            raise error_of(result, text(error.text))
        self._core, self._key, self._place = core, key, ffi.gc(place[0], lib.shim_place_free)
        if self._watched:
            core.watched[key] = weakref.ref(self)
        return core

    def _entered(self) -> None:
        """A loss may have come together with the lock, where the program was busy meanwhile."""
        if not self.held:
            error = self._error(lib.REDLOCK_LOST)
            self._forget()
            raise error

    def _released(self, result: int) -> None:
        """Goes on from a release at the end of `with`. Too few answers are no failure there: the lock was ours to the end."""
        if result == lib.REDLOCK_LOST:
            raise self._error(result)
        if result != lib.REDLOCK_OK:
            self._forget()

    def _forget(self) -> None:
        """Cancels what is under way, and releases without waiting."""
        place, core, key = self._place, self._core, self._key
        self._place, self._core = None, None
        if place is not None and core is not None:
            core.drop(key)
            core.watched.pop(key, None)
            ffi.release(place)

    def __del__(self) -> None:
        self._forget()


class Lock(BaseLock[ThreadCore]):
    """A lock for blocking code. `with` acquires and releases it; `async with` gives an AsyncLock with the same settings."""

    _inside: Optional[List[Tuple[Any, "AsyncLock"]]] = None  # the tasks that are inside `async with`

    def acquire(self, wait: Optional[float] = None) -> None:
        """Waits until the lock is held, for at most `wait` seconds (0: one try; None: for ever), and raises Held, NoQuorum, ...
        ^C interrupts it at once."""
        end = None if wait is None else time.monotonic() + wait
        core = self._ready()
        try:
            result = lib.shim_try(self._place, core.quorum) if core.quick else lib.SHIM_NOT_READY
            if result == lib.SHIM_NOT_READY or (result in PASSING and wait != 0):
                left = wait if end is None else max(0.0, end - time.monotonic())
                result = self._await(core, milliseconds(left))
        except BaseException:
            self._forget()
            raise
        if result != lib.REDLOCK_OK:
            raise self._error(result)

    def try_acquire(self) -> bool:
        """One try. False: another client holds the lock."""
        try:
            self.acquire(0)
        except Held:
            return False
        return True

    def extend(self, ttl: Optional[float] = None) -> None:
        """Makes what is left at least `ttl` seconds (None: the lock's own TTL). A lock that renews itself needs it only for
        another TTL."""
        self._check_made()
        self._done(lib.shim_extend(self._place, 0 if ttl is None else milliseconds(ttl)))

    def downgrade(self) -> None:
        """A writer becomes a reader, without a gap."""
        self._check_made()
        self._done(lib.shim_downgrade(self._place))

    def release(self) -> None:
        """Raises Lost if the lock was not ours to the end, and NoQuorum if that is not known."""
        self._check_made()
        self._done(lib.shim_release(self._place))

    def _done(self, result: int) -> None:
        if result != lib.REDLOCK_OK:
            raise self._error(result)

    def _ready(self) -> ThreadCore:
        self._watched = self._on_lost is not None
        core = self._make(self._client._thread_core())
        if self._watched:
            core.listen()
        return core

    def _await(self, core: ThreadCore, wait_ms: int) -> int:
        """The waiting is done in Python, which hears signals."""
        core.listen()
        if core.hands_out():
            raise RuntimeError(f"{self.name}: on_lost cannot wait for a lock: start a thread for that")
        future: "Future[int]" = Future()
        if core.pending.setdefault(self._key, future) is not future:
            return int(lib.REDLOCK_BUSY)
        result = int(lib.shim_start(self._place, lib.SHIM_ACQUIRE, wait_ms))
        if result != lib.REDLOCK_OK:
            core.pending.pop(self._key, None)
            return result
        return future.result()

    def __enter__(self) -> "Lock":
        self.acquire(self._wait)
        self._entered()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        try:
            self.check()
            self._released(lib.shim_release(self._place))
        except Error:
            self._forget()
            if kind is None:  # otherwise the program knows that it failed
                raise

    async def __aenter__(self) -> "AsyncLock":
        lock = AsyncLock(self._client, self._resources, self._options, self._wait, self._on_lost)
        await lock.__aenter__()
        self._inside = self._inside or []
        self._inside.append((asyncio.current_task(), lock))
        return lock

    async def __aexit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        inside, task = self._inside or [], asyncio.current_task()
        own = [i for i, (each, _) in enumerate(inside) if each is task]
        # asyncio.wait_for() enters in a task of its own
        await inside.pop(own[-1] if own else -1)[1].__aexit__(kind, value, trace)


class AsyncLock(BaseLock[LoopCore]):
    """A lock for asyncio. If it is lost, the task that entered `async with` is cancelled, and sees Lost when it leaves."""

    _watched = True
    _task: Optional["asyncio.Task[Any]"] = None
    _cancelled = False  # we have cancelled it
    _cancelling = 0     # how many others had, when it entered

    async def acquire(self, wait: Optional[float] = None) -> None:
        """Waits until the lock is held, for at most `wait` seconds (0: one try; None: for ever), and raises Held, NoQuorum, ..."""
        core = self._make(self._client._loop_core())
        try:
            result = await core.start(self._place, self._key, lib.SHIM_ACQUIRE, milliseconds(wait))
        except BaseException:
            self._forget()
            raise
        if result != lib.REDLOCK_OK:
            raise self._error(result)

    async def try_acquire(self) -> bool:
        """One try. False: another client holds the lock."""
        try:
            await self.acquire(0)
        except Held:
            return False
        return True

    async def extend(self, ttl: Optional[float] = None) -> None:
        """As Lock.extend()."""
        await self._run(lib.SHIM_EXTEND, 0 if ttl is None else milliseconds(ttl))

    async def downgrade(self) -> None:
        """As Lock.downgrade()."""
        await self._run(lib.SHIM_DOWNGRADE, 0)

    async def release(self) -> None:
        """As Lock.release()."""
        result = await self._release()
        if result != lib.REDLOCK_OK:
            raise self._error(result)

    def noted(self, note: Any) -> None:
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel()
        super().noted(note)

    async def _run(self, operation: int, amount: int) -> None:
        self._check_made()
        assert self._core is not None
        result = await self._core.start_next(self._place, self._key, operation, amount)
        if result != lib.REDLOCK_OK:
            raise self._error(result)

    async def _release(self) -> int:
        self._check_process()
        if self._core is None:
            return int(lib.REDLOCK_LOST)
        try:
            return await self._core.start_next(self._place, self._key, lib.SHIM_RELEASE, 0)
        except BaseException:
            self._forget()
            raise

    async def __aenter__(self) -> "AsyncLock":
        await self.acquire(self._wait)
        self._entered()
        task = asyncio.current_task()
        self._cancelled, self._task = False, task
        self._cancelling = task.cancelling() if task is not None and hasattr(task, "cancelling") else 0
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        task, self._task = self._task, None
        if self._cancelled and task is not None:
            error = self._error(lib.REDLOCK_LOST)
            self._forget()
            if await _ours(task, kind, self._cancelling):
                raise error from value
            return
        try:
            self.check()
            self._released(await self._release())
        except Error:
            self._forget()
            if kind is None:
                raise


async def _ours(task: "asyncio.Task[Any]", kind: Optional[Type[BaseException]], cancelling: int) -> bool:
    """Takes back our cancel() of the task. False: something else happened to it too, which goes on."""
    if kind is None:  # it has not met the cancellation: here it does
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            kind = asyncio.CancelledError
    others = task.uncancel() > cancelling if hasattr(task, "uncancel") else False
    return not others and kind in (None, asyncio.CancelledError)
