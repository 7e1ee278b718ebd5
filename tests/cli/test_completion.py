# SPDX-License-Identifier: BSD-2-Clause
"""The completions, in the shells themselves: the options of --help and no others, and what each value may be."""
import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import tempfile
import termios
import time

import pytest

from test_manual import COMMANDS, OTHERS, options_of

COMPLETION = pathlib.Path(os.environ["REDLOCK_SOURCE"]) / "packaging" / "completion"
HOME = tempfile.TemporaryDirectory(prefix="redlock-test-")  # fish makes directories there
ENVIRON = {"PATH": f"{os.path.dirname(os.environ['REDLOCK_BIN'])}:{os.environ['PATH']}", "HOME": HOME.name, "REDLOCK_CONFIG": "/dev/null",
           "LANG": "C.UTF-8"}


class Bash:
    name = "bash"
    file = COMPLETION / "redlock.bash"

    def __call__(self, line):
        script = (f"source {self.file}; "
                  'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _redlock; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "--norc", "-c", script, "bash", *line.split(" ")], env=ENVIRON, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.split()

    def close(self):
        pass


class Fish:
    name = "fish"
    file = COMPLETION / "redlock.fish"

    def __call__(self, line):
        done = subprocess.run(["fish", "--no-config", "-c", f"source {self.file}; complete -C '{line}'"], env=ENVIRON,
                              capture_output=True, text=True, check=True)
        assert done.stderr == ""
        # Where nothing begins with the word, fish also offers what contains it.
        return [each for each in (row.split("\t")[0] for row in done.stdout.splitlines()) if each.startswith(line.rsplit(" ", 1)[1])]

    def close(self):
        pass


class Zsh:
    """At its prompt, because its completion works nowhere else: Tab is typed, and the list is read."""
    name = "zsh"
    file = COMPLETION / "_redlock"

    def __init__(self):
        pid, self.fd = pty.fork()
        if pid == 0:
            os.environ.clear()
            os.environ.update({**ENVIRON, "TERM": "dumb", "PS1": "begins> "})
            os.execvp("zsh", ["zsh", "-f", "-i"])
        self.pid = pid
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 500, 300, 0, 0))
        self.seen = b""
        self.until(rb"begins> ")
        self.type(f"fpath=({COMPLETION} $fpath); autoload -Uz compinit; compinit -u -D; zstyle ':completion:*' verbose no; LISTMAX=0; "
                  "unsetopt prompt_cr prompt_sp list_types; PS1='now> '\n")
        self.until(rb"\nnow> ")

    def type(self, text):
        os.write(self.fd, text.encode())

    def until(self, pattern, seconds=10):
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen, re.S)):
            assert time.monotonic() < end, f"{pattern!r} did not come; seen: {self.seen!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                self.seen += os.read(self.fd, 65536)
        text, self.seen = self.seen[:found.end()], self.seen[found.end():]
        return text

    def __call__(self, line):
        """What the terminal shows between Tab and the next command, which prints a mark: the list, or the only match in the line."""
        word = line.rsplit(" ", 1)[1]
        self.seen = b""
        self.type(line + "\t\x15print all-''shown\n")
        text = self.until(rb"all-shown.*now> ").decode().split("print all-")[0]
        words = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", " ", re.sub(r"[\x07\x08]", " ", text)).split()
        return sorted({each for each in words if each.startswith(word) and each not in [*line.split(" "), "now>"]})

    def close(self):
        os.kill(self.pid, 9)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@pytest.fixture(scope="module", params=[Bash, Zsh, Fish], ids=lambda shell: shell.name)
def complete(request):
    if shutil.which(request.param.name) is None:
        pytest.skip(f"{request.param.name} is not installed")
    shell = request.param()
    yield shell
    shell.close()


@pytest.mark.parametrize("shell", [Bash, Zsh, Fish], ids=lambda shell: shell.name)
def test_syntax(shell):
    if shutil.which(shell.name) is None:
        pytest.skip(f"{shell.name} is not installed")
    done = subprocess.run([shell.name, "-n", shell.file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_commands(complete):
    assert sorted(complete("redlock ")) == sorted(COMMANDS + OTHERS)
    assert sorted(complete("redlock help re")) == ["release"]
    assert sorted(complete("redlock help quorum re")) == ["remove", "replace"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_help_and_no_other(complete, redlock, command):
    assert sorted(complete(f"redlock {command} --")) == sorted(f"--{name}" for name in options_of(redlock, command))


def test_verbs(complete):
    assert sorted(complete("redlock quorum re")) == ["remove", "replace"]
    assert complete("redlock quorum init --fl") == ["--floor"]
    assert complete("redlock quorum add --fl") == []


@pytest.mark.parametrize("line, expected", [
    ("run --on-lost ", {"term", "ignore"}),
    ("run --mode ", {"auto", "classic", "guarded"}),
    ("up --mode ", {"classic", "guarded"}),
    ("bench --mode ", {"single", "classic", "guarded"}),
    ("serve --busy-poll ", {"yes", "no"}),
    ("serve --scripts ", {"confined", "unconfined", "known"}),
])
def test_values(complete, line, expected):
    assert set(complete("redlock " + line)) == expected


@pytest.mark.parametrize("line", ["run x tru", "run -t 5s x tru", "run --confirm x -- tru", "run --timeout 5s --profile prod x tru", "up -n 3 -- tru",
                                  "gate --fence 3 file tru"])
def test_the_command_line_of_another_program(complete, line):
    assert {"true", "truncate"} <= set(complete("redlock " + line))


@pytest.mark.parametrize("line", ["gate ", "serve --password-file ", "run --status-file "])
def test_files(complete, tmp_path, line):
    (tmp_path / "the-file").touch()
    assert "the-file" in " ".join(complete(f"redlock {line}{tmp_path}/the"))
