# SPDX-License-Identifier: BSD-2-Clause
"""Builds redlock._shim: what Python may call is read from the installed redlock.h, and so never typed twice.

The library is found by pkg-config. REDLOCK_LINK=static puts it inside.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

import cffi

HERE = pathlib.Path(__file__).resolve().parent
STATIC = os.environ.get("REDLOCK_LINK") == "static"


def pkg_config(*options):
    command = [os.environ.get("PKG_CONFIG", "pkg-config"), *(["--static"] if STATIC else []), *options, "redlock"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        sys.exit("libredlock: pkg-config is not installed: install it and libredlock-dev, or install a wheel")
    if done.returncode != 0:
        sys.exit("libredlock: pkg-config finds no redlock.pc: install libredlock-dev, or set PKG_CONFIG_PATH to the "
                 f"directory of redlock.pc\n{done.stderr.strip()}")
    return shlex.split(done.stdout)


def preprocess(flags, *options):
    with tempfile.TemporaryDirectory() as empty:
        for name in ("string.h", "stddef.h", "stdint.h"):
            (pathlib.Path(empty) / name).touch()
        command = [*shlex.split(os.environ.get("CC", "cc")), "-E", "-P", *options, "-nostdinc", "-U__GNUC__",
                   f"-I{empty}", *flags, "-x", "c", "-"]
        return subprocess.run(command, input="#include <redlock.h>\n", capture_output=True, text=True, check=True).stdout


def declarations(flags):
    """redlock.h as the preprocessor leaves it, and its constants; not the functions that it defines."""
    constants = re.findall(r"^#define (REDLOCK_\w+) (?:\(?-?\d+\)?|INT64_C\(\d+\))$", preprocess(flags, "-dM"), re.MULTILINE)
    header = re.sub(r"static inline [^{]*\{[^}]*\}", "", preprocess(flags))
    return header + "".join(f"#define {name} ...\n" for name in sorted(constants))


def make():
    cflags, libs = pkg_config("--cflags"), pkg_config("--libs")
    if "-I" not in "".join(cflags):
        cflags.append(f"-I{pkg_config('--variable=includedir')[0]}")
    if STATIC:
        libs = ["-l:libredlock.a" if word == "-lredlock" else word for word in libs]
        libs.append("-Wl,--exclude-libs,ALL")
    ffi = cffi.FFI()
    ffi.cdef(declarations([word for word in cflags if word.startswith("-I")]))
    ffi.cdef(re.sub(r"/\*.*?\*/", "", (HERE / "shim.h").read_text(encoding="utf-8"), flags=re.DOTALL))
    ffi.set_source("redlock._shim", (HERE / "shim.c").read_text(encoding="utf-8"), include_dirs=[str(HERE)],
                   define_macros=[("_GNU_SOURCE", None)], extra_compile_args=["-std=c11", "-fvisibility=hidden", *cflags], extra_link_args=libs)
    return ffi


ffi = make()
