# SPDX-License-Identifier: BSD-2-Clause
"""The nodes, and what is done on them."""
import asyncio
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, Iterable, List, Optional, Type, TypeVar, Union

from redlock._core import LoopCore, ThreadCore
from redlock._errors import BadArgument, Error
from redlock._lock import AsyncLock, BaseLock, Lock, milliseconds
from redlock._observe import Observer
from redlock._shim import ffi, lib

Name = Union[str, bytes]
LockT = TypeVar("LockT", bound="BaseLock[Any]")
OnLost = Callable[[Any], None]

MODES = {"auto": lib.REDLOCK_MODE_AUTO, "classic": lib.REDLOCK_MODE_CLASSIC, "guarded": lib.REDLOCK_MODE_GUARDED}


def as_bytes(name: Name) -> bytes:
    if not isinstance(name, (str, bytes)):  # bytes(3) is three zeros
        raise TypeError(f"a name is str or bytes, and not {type(name).__name__}: {name!r}")
    return name.encode() if isinstance(name, str) else name


class Client:
    """Nodes that hold locks: redis://, rediss:// or unix:// URLs; None: those of REDLOCK_NODES or /etc/redlock.conf.

    It connects when it is first used, for all threads of the process and once for each event loop, so it may be made before a
    fork and used after it, in the parent and in the child. Durations are in seconds. The options are those of redlock.h.
    """

    def __init__(self, nodes: Union[None, str, Iterable[str]] = None, *, mode: str = "auto",
                 node_timeout: Optional[float] = None, connect_timeout: Optional[float] = None, key_prefix: Optional[Name] = None,
                 user: Optional[str] = None, password_file: Optional[str] = None, tls_ca_file: Optional[str] = None,
                 tls_cert_file: Optional[str] = None, tls_key_file: Optional[str] = None, tls_server_name: Optional[str] = None,
                 quorum: Optional[str] = None, confirm: bool = False, recover: Optional[bool] = None,
                 allow_replicas: bool = False) -> None:
        if mode not in MODES:
            raise BadArgument(f"mode {mode!r}: there are auto, classic and guarded", lib.REDLOCK_BAD_ARGUMENT)
        given: Dict[str, Any] = {
            "node_timeout_ms": None if node_timeout is None else milliseconds(node_timeout),
            "connect_timeout_ms": None if connect_timeout is None else milliseconds(connect_timeout),
            "key_prefix": key_prefix, "user": user, "password_file": password_file, "tls_ca_file": tls_ca_file,
            "tls_cert_file": tls_cert_file, "tls_key_file": tls_key_file, "tls_server_name": tls_server_name, "quorum": quorum,
            "mode": MODES[mode], "confirm": int(confirm), "recover": None if recover is None else int(recover),
            "allow_replicas": int(allow_replicas)}
        self._options = {name: as_bytes(value) if isinstance(value, str) else value
                         for name, value in given.items() if value is not None}
        self._nodes = nodes if nodes is None or isinstance(nodes, str) else ",".join(nodes)
        if self._nodes is not None and "\0" in self._nodes:
            raise ValueError("nodes contains a NUL")
        self._closed = False
        self._open_anew()

    def _open_anew(self) -> None:
        self._threads: Optional[ThreadCore] = None
        self._loops: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopCore]" = weakref.WeakKeyDictionary()

    def __getstate__(self) -> Dict[str, Any]:
        """For multiprocessing: settings travel, connections do not."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_threads", "_loops")}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open_anew()

    def lock(self, name: Union[Name, Iterable[Name]], *, ttl: float = 30, wait: Optional[float] = None, shared: bool = False,
             slots: int = 0, owner: Optional[Name] = None, renew: bool = True, hold_max: Optional[float] = None,
             lost_margin: Optional[float] = None, on_lost: Optional[OnLost] = None) -> Lock:
        """A lock on one name, or on all of several, for `with` and `async with`. It acquires nothing yet.

        wait: how long `with` waits for it; None: for ever; 0: one try.
        shared: any number of readers hold it together, and no writer meanwhile. slots: at most so many clients hold it.
        renew: until it is released or lost; hold_max: for this long at most. owner: shown by `redlock show`.
        on_lost: called with the lock when it is lost, `lost_margin` before its validity ends: on a thread of this module, and
        with asyncio on the loop.
        """
        return self._new(Lock, name, ttl, wait, on_lost, shared=int(shared), slots=slots, owner=owner, renew=int(renew),
                         hold_ms_max=hold_max, lost_margin_ms=lost_margin)

    def async_lock(self, name: Union[Name, Iterable[Name]], *, ttl: float = 30, wait: Optional[float] = None, shared: bool = False,
                   slots: int = 0, owner: Optional[Name] = None, renew: bool = True, hold_max: Optional[float] = None,
                   lost_margin: Optional[float] = None, on_lost: Optional[OnLost] = None) -> AsyncLock:
        """The same for asyncio, for code that awaits acquire() and release() itself."""
        return self._new(AsyncLock, name, ttl, wait, on_lost, shared=int(shared), slots=slots, owner=owner, renew=int(renew),
                         hold_ms_max=hold_max, lost_margin_ms=lost_margin)

    def elect(self, name: Name, candidate: Name, *, ttl: float = 30, wait: Optional[float] = None,
              on_lost: Optional[OnLost] = None) -> Lock:
        """The lock of an election, in guarded mode: its holder leads, its fence is the term, and observers see `candidate`."""
        return self._new(Lock, name, ttl, wait, on_lost, owner=candidate, leader=1)

    def observe(self, name: Name) -> Observer:
        """Who leads, and each change: for `for` and `async for`. It takes nothing."""
        return Observer(self, as_bytes(name))

    def close(self) -> None:
        """Opens nothing any more. Connections close with the last lock that is held on them."""
        self._closed = True
        self._open_anew()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        self.close()

    # ---- below ----

    def _new(self, kind: Type[LockT], name: Union[Name, Iterable[Name]], ttl: float, wait: Optional[float],
             on_lost: Optional[OnLost], **options: Any) -> LockT:
        names: List[bytes] = [as_bytes(name)] if isinstance(name, (str, bytes)) else [as_bytes(each) for each in name]
        known: Dict[str, Any] = {"ttl_ms": milliseconds(ttl)}
        for key, value in options.items():
            if value is None:
                continue
            known[key] = milliseconds(value) if key.endswith(("_ms", "_ms_max")) else value
        if known.get("hold_ms_max", 1) < 1:  # the library takes 0 as no limit
            raise BadArgument(f"hold_max is {options['hold_ms_max']} s: it must be at least 1 ms", lib.REDLOCK_BAD_ARGUMENT)
        if "owner" in known:
            known["owner"] = ffi.from_buffer(as_bytes(known["owner"]))
            known["owner_bytes"] = len(known["owner"])
        return kind(self, names, known, wait, on_lost)

    def _where(self) -> Any:
        if self._closed:
            raise Error("the client is closed")
        return ffi.NULL if self._nodes is None else self._nodes.encode()

    def _thread_core(self) -> ThreadCore:
        core = self._threads
        if core is None or not core.here:
            core = self._threads = ThreadCore(self._where(), self._options)
        return core

    def _loop_core(self) -> LoopCore:
        loop = asyncio.get_running_loop()
        core = self._loops.get(loop)
        if core is None or not core.here:
            core = self._loops[loop] = LoopCore(self._where(), self._options, loop)
        return core
