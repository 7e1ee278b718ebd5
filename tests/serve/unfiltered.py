# SPDX-License-Identifier: BSD-2-Clause
"""Takes from this process, and from those that it starts, what seccomp filters are installed by, or IPv6: as an old kernel, or a
container, has none. x86-64 and aarch64."""
import ctypes
import errno
import os
import socket
import struct

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
PRCTL, SOCKET = {"x86_64": (157, 41), "aarch64": (167, 198)}.get(os.uname().machine, (None, None))
KNOWN = PRCTL is not None


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def forbid_filters():
    """For preexec_fn. prctl(PR_SET_SECCOMP) fails from here on, whoever calls it."""
    forbid(PRCTL, PR_SET_SECCOMP, errno.EINVAL)


def forbid_v6():
    """For preexec_fn: as with ipv6.disable=1."""
    forbid(SOCKET, socket.AF_INET6, errno.EAFNOSUPPORT)


def forbid(call, argument, error):
    """A system call with this first argument fails."""
    load, equal, answer, allow = 0x20, 0x15, 0x06, 0x7fff0000
    code = [(load, 0, 0, 0), (equal, 0, 3, call), (load, 0, 0, 16), (equal, 0, 1, argument),
            (answer, 0, 0, 0x00050000 | error), (answer, 0, 0, allow)]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    program = Program(len(code), ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0
