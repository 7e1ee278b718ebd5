# SPDX-License-Identifier: BSD-2-Clause
"""What the run of a differential test says about a changed script."""
import pathlib
import re
import subprocess

DIFFERS = int(re.search(r"EXIT_DIFFERS = (\d+)", (pathlib.Path(__file__).parent / "../node/differs.h").read_text())[1])


class NoVerdict(Exception):
    """The test neither passed nor found a difference, twice: it could not run."""


def verdict(words, timeout_s, differs=DIFFERS):
    """"survived", "noticed", "timed out", or "no script": it does not compile.

    Only a difference that the test reports is noticed. A run that ends in any other way says nothing, and is repeated.
    """
    for _ in range(2):
        try:
            done = subprocess.run(words, capture_output=True, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired:  # a loop without an end, or a busy machine: neither noticed nor survived
            return "timed out"
        if re.search(rb"(?i)error compiling script", done.stdout + done.stderr):
            return "no script"
        if done.returncode in (0, differs):
            return "noticed" if done.returncode else "survived"
    lines = (done.stdout + done.stderr).decode(errors="replace").splitlines() or ["no output"]
    raise NoVerdict(f"{pathlib.Path(words[0]).name} ended with status {done.returncode}: {lines[-1]}")
