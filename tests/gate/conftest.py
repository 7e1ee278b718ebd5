# SPDX-License-Identifier: BSD-2-Clause
"""--recipe NAME: which of docs/use/fencing.md's recipes is tested; ctest has a test for each."""


def pytest_addoption(parser):
    parser.addoption("--recipe", required=True)
