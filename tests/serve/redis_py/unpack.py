# SPDX-License-Identifier: BSD-2-Clause
"""Takes redis-py's own test of its lock out of its source distribution, as it is, and puts our conftest.py beside it."""
import pathlib
import shutil
import tarfile

(archive,) = pathlib.Path("sdist").glob("redis-*.tar.gz")
suite = pathlib.Path("suite/tests")
suite.mkdir(parents=True, exist_ok=True)
with tarfile.open(archive) as tar:
    name = next(name for name in tar.getnames() if name.endswith("/tests/test_lock.py") and name.count("/") == 2)
    (suite / "test_lock.py").write_bytes(tar.extractfile(name).read())
(suite / "__init__.py").touch()
shutil.copy("suite_conftest.py", suite / "conftest.py")
