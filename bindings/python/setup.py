# SPDX-License-Identifier: BSD-2-Clause
"""The version is that of the library: in a source package as it was packed, else from pkg-config."""
import pathlib
import re
import subprocess

from setuptools import setup


def version():
    packed = pathlib.Path(__file__).resolve().parent / "PKG-INFO"
    if packed.exists():
        return re.search(r"^Version: (.*)$", packed.read_text(encoding="utf-8"), re.MULTILINE).group(1)
    found = subprocess.run(["pkg-config", "--modversion", "redlock"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "0"  # build_shim.py says what is missing


setup(version=version(), cffi_modules=["build_shim.py:ffi"], options={"bdist_wheel": {"py_limited_api": "cp39"}})
