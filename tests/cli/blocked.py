# SPDX-License-Identifier: BSD-2-Clause
"""Pipes that nobody reads."""
import contextlib
import fcntl
import os


def fill(descriptor):
    """A write to it now waits for a reader."""
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(descriptor, b"x" * 4096)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(descriptor, b"x")
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags)
