# SPDX-License-Identifier: BSD-2-Clause
"""libredlock by Python's ctypes: as much of it as hold.py needs, and how the rest is added. bindings.md has the rules."""
import ctypes
import os
import queue
from ctypes import c_char, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p

OK, HELD, LOST = 0, -1, -4
RENEWED, UNSURE, SURE, GONE = 1, 2, 3, 4  # enum redlock_change

CHANGE_FN = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_int)
DONE_FN = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_int)


class LockOptions(ctypes.Structure):
    """struct redlock_lock_options as it was when this was written; a later library may know more fields, and is told
    how many these are."""

    _fields_ = [("size", c_size_t), ("ttl_ms", c_int64), ("validity_ms_min", c_int64), ("renew", c_int),
                ("renew_interval_ms", c_int64), ("hold_ms_max", c_int64), ("renew_count_max", c_uint32),
                ("lost_margin_ms", c_int64), ("retry_count_max", c_uint32), ("retry_delay_ms_min", c_int64),
                ("retry_delay_ms_max", c_int64), ("owner", c_char_p), ("owner_bytes", c_size_t), ("on_change", CHANGE_FN),
                ("on_change_context", c_void_p), ("leader", c_int), ("slots", c_uint32), ("shared", c_int)]


class Error(ctypes.Structure):
    _fields_ = [("result", c_int), ("text", c_char * 512)]


class Bytes(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("bytes", c_size_t)]


def _load():
    # CDLL, not PyDLL: it lets go of Python's lock during a call, which the service thread needs for its callbacks.
    library = ctypes.CDLL(os.environ.get("REDLOCK_LIBRARY", "libredlock.so.0"))
    for name, result, *arguments in [
            ("redlock_version", c_char_p),
            ("redlock_result_text", c_char_p, c_int),
            ("redlock_client_open", c_int, c_char_p, c_void_p, ctypes.POINTER(c_void_p), ctypes.POINTER(Error)),
            ("redlock_client_free", None, c_void_p),
            ("redlock_lock_options_fill", None, ctypes.POINTER(LockOptions), c_size_t),
            ("redlock_lock_new", c_int, c_void_p, c_char_p, c_size_t, ctypes.POINTER(LockOptions), ctypes.POINTER(c_void_p),
             ctypes.POINTER(Error)),
            ("redlock_lock_free", None, c_void_p),
            ("redlock_acquire_start", c_int, c_void_p, c_int64, DONE_FN, c_void_p),
            ("redlock_cancel", None, c_void_p),
            ("redlock_release", c_int, c_void_p),
            ("redlock_validity_ms", c_int64, c_void_p),
            ("redlock_validity_end_ns", c_int64, c_void_p),
            ("redlock_token", Bytes, c_void_p)]:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments  # without them pointers would be cut to 32 bits
    return library


LIBRARY = _load()


class Failed(Exception):
    """Carries the library's own sentence."""


def text(result):
    return LIBRARY.redlock_result_text(result).decode()


def _check(result, error):
    if result != OK:
        raise Failed(error.text.decode(errors="replace") or text(result))


class Client:
    """Free its locks first: `with Client(...) as client, Lock(client, ...) as lock` does."""

    def __init__(self, nodes):
        self.pointer, error = c_void_p(), Error()
        _check(LIBRARY.redlock_client_open(nodes.encode(), None, ctypes.byref(self.pointer), ctypes.byref(error)), error)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        LIBRARY.redlock_client_free(self.pointer)


class Lock:
    """Renewed by the library's service thread. on_change(lock, change) is called on that thread: it only passes on."""

    def __init__(self, client, resource, on_change=None, **options):
        self.pointer, error, known = c_void_p(), Error(), LockOptions()
        LIBRARY.redlock_lock_options_fill(ctypes.byref(known), ctypes.sizeof(known))
        for name, value in options.items():
            if name not in (field for field, *_ in LockOptions._fields_):
                raise TypeError(f"{name}: no such option")
            setattr(known, name, value)
        # Both live as long as this object: the library may be inside them until redlock_lock_free() has returned.
        self._on_change = CHANGE_FN((lambda _context, _lock, change: on_change(self, change)) if on_change else 0)
        self._done, self._results = DONE_FN(lambda _context, _lock, result: self._results.put(result)), queue.SimpleQueue()
        known.on_change = self._on_change
        resource = resource.encode()
        _check(LIBRARY.redlock_lock_new(client.pointer, resource, len(resource), ctypes.byref(known), ctypes.byref(self.pointer),
                                        ctypes.byref(error)), error)

    def acquire(self, wait_ms):
        """OK, HELD, ... It is waited for here and not inside the library, so that ^C is heard."""
        if (result := LIBRARY.redlock_acquire_start(self.pointer, wait_ms, self._done, None)) != OK:
            return result
        try:
            return self._results.get()
        except BaseException:
            LIBRARY.redlock_cancel(self.pointer)
            self._results.get()
            raise

    def release(self):
        return LIBRARY.redlock_release(self.pointer)

    @property
    def validity_ms(self):
        return LIBRARY.redlock_validity_ms(self.pointer)

    @property
    def validity_end_ns(self):
        """On CLOCK_BOOTTIME; 0 when it is not held."""
        return LIBRARY.redlock_validity_end_ns(self.pointer)

    @property
    def token(self):
        told = LIBRARY.redlock_token(self.pointer)
        return ctypes.string_at(told.data, told.bytes) if told.data else None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        """Releases it if it is held, and waits for a callback under way."""
        LIBRARY.redlock_lock_free(self.pointer)
