# SPDX-License-Identifier: BSD-2-Clause
"""What can go wrong. Every error has the library's result number, its sentence and, if one is known, the cure."""
from typing import Any, Dict, Type

from redlock._shim import ffi, lib


class Error(Exception):
    """Base of all errors. `result` is an enum redlock_result of redlock.h."""

    def __init__(self, sentence: str, result: int = 0, cure: str = "") -> None:
        super().__init__(sentence, result, cure)
        self.sentence, self.result, self.cure = sentence, result, cure

    def __str__(self) -> str:
        return f"{self.sentence}\n{self.cure}" if self.cure else self.sentence


class Held(Error):
    """Another client holds the lock, and `wait` has passed."""


class NoQuorum(Error):
    """Too few nodes answered: nobody can know who holds the lock."""


class Expired(Error):
    """The majority answered too late."""


class Lost(Error):
    """The lock is not, or no longer, ours: stop the work that it protects."""


class BadArgument(Error, ValueError):
    """A node, a name or an option is out of range."""


class Forked(Error):
    """The lock was acquired by the parent process, which keeps it."""


class Busy(Error):
    """Another operation on this lock is under way, or it is held already."""


_CLASSES: Dict[int, Type[Error]] = {
    lib.REDLOCK_HELD: Held, lib.REDLOCK_NO_QUORUM: NoQuorum, lib.REDLOCK_EXPIRED: Expired, lib.REDLOCK_LOST: Lost,
    lib.REDLOCK_BAD_ARGUMENT: BadArgument, lib.REDLOCK_FORKED: Forked, lib.REDLOCK_BUSY: Busy}


def text(chars: Any) -> str:
    return bytes(ffi.string(chars)).decode(errors="replace")


def error_of(result: int, sentence: str = "", cure: str = "") -> Error:
    return _CLASSES.get(result, Error)(sentence or text(lib.redlock_result_text(result)), result, cure)


def explain(place: Any, result: int, name: str) -> Error:
    """The error of an operation on a lock that has just ended; without a place, the result's own sentence."""
    why = ffi.new("struct redlock_why_report *")
    why.size = ffi.sizeof("struct redlock_why_report")
    if place is None or lib.shim_why(place, result, why) != lib.REDLOCK_OK:
        return error_of(result, f"{name}: {text(lib.redlock_result_text(result))}")
    return error_of(result, f"{name}: {text(why.sentence)}", text(why.cure))
