# SPDX-License-Identifier: BSD-2-Clause
"""The packages. cases.py has what runs in the environment where the wheel is installed."""
import os
import pathlib
import re
import subprocess
import zipfile

import pytest

from conftest import HERE, SOURCE, run


def test_the_wheel_is_for_all_versions_and_has_the_library_inside(wheel, tmp_path):
    assert "-cp39-abi3-" in wheel.name, wheel.name
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path)
        assert "redlock/py.typed" in packed.namelist()
    addon = next(tmp_path.rglob("_shim*.so"))
    needed = subprocess.run(["readelf", "-d", addon], capture_output=True, text=True, check=True).stdout
    assert "libredlock" not in needed and "libpython" not in needed, needed
    symbols = subprocess.run(["nm", "-D", "--defined-only", addon], capture_output=True, text=True, check=True).stdout
    assert [line.split()[-1] for line in symbols.splitlines()] == ["PyInit__shim"], symbols


@pytest.mark.parametrize("part", ["page", "blocking", "async", "processes", "ends", "soak"])
def test_cases(app, part):
    redlock = pathlib.Path(os.environ["REDLOCK_BIN"]).parent
    print(app.must("-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", f"test_{part}", HERE / "cases.py",
                   PATH=f"{redlock}:{os.environ['PATH']}", PYTHONPATH=":".join(str(SOURCE / "tests" / level) for level in ("cli", "docs", "gate"))))


def test_the_source_package_finds_the_library_or_names_what_is_missing(tools, source_package, package_config, tmp_path):
    install = ("install", "--no-build-isolation", "--no-deps", "--target", tmp_path, "-v", source_package)
    status, said = tools.pip(*install, PKG_CONFIG_PATH="/nonexistent", PKG_CONFIG_LIBDIR="/nonexistent")
    assert status != 0 and "install libredlock-dev, or set PKG_CONFIG_PATH" in said, said
    status, said = tools.pip(*install, PKG_CONFIG_PATH=package_config)
    assert status == 0, said
    version = tools.must("-c", "import redlock; print(redlock.__version__)", PYTHONPATH=str(tmp_path),
                         LD_LIBRARY_PATH=str(pathlib.Path(package_config).parent))
    assert f"-{version.strip()}.tar.gz" in source_package.name


def test_types(tools, app):
    package = next(app.directory.glob("env/lib/python*/site-packages/redlock"))
    program = app.directory / "typed.py"
    program.write_text("import redlock\nwith redlock.Client().lock('n') as lock:\n    reveal_type(lock.fence)\n"
                       "    lock.extend('x')\n")
    status, said = run(tools.python, "-m", "mypy", "--strict", "--python-executable", app.python, package, program,
                       cwd=app.directory)
    *found, last = said.splitlines()
    assert re.search(r"typed.py:3: note: .*(Union\[.*int, None|int \| None)", found[0]), said
    assert re.search('typed.py:4: error: .* incompatible type "str"', found[1]) and len(found) == 2, said
    assert last.startswith("Found 1 error in 1 file (checked 9 "), said
