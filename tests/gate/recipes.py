# SPDX-License-Identifier: BSD-2-Clause
"""Resources behind a fence, each driven by the text of docs/use/fencing.md with the resource's own command line.

A resource has read(fence) and write(fence, value): the value, or None when refused; and peek(), which asks nobody.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

SOURCE = pathlib.Path(os.environ["REDLOCK_SOURCE"])
sys.path.insert(0, str(SOURCE / "tests" / "cli"))
from servers import Server, die_with_us  # noqa: E402


def recipe(name):
    """The code block of docs/use/fencing.md under the comment that names it. SQLite has PostgreSQL's, changed as the page says."""
    if name.startswith("sqlite-"):
        return recipe(name.replace("sqlite", "postgresql", 1)).replace(":'id'", ":id").replace("greatest(", "max(")
    text = (SOURCE / "docs" / "use" / "fencing.md").read_text(encoding="utf-8")
    return re.search(rf"^<!-- recipe: {name} -->\n```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL).group(1)


class Missing(Exception):
    """The tool that the recipe is for is not installed."""


def need(name, also=()):
    found = shutil.which(name) or next((str(path) for path in also if os.access(path, os.X_OK)), None)
    if found is None:
        raise Missing(f"{name} is not installed")
    return found


def output(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **more)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout.strip()


def number(text):
    return int(text) if text else None


class PostgreSQL:
    """A server of the test's own: an unprivileged user, a socket in its own directory, no port."""

    def __init__(self, directory):
        # Debian keeps the server's programs out of PATH, by version.
        versions = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -float(path.parent.name))
        initdb, postgres = (need(name, [path / name for path in versions]) for name in ("initdb", "postgres"))
        self.psql = need("psql")
        # Not below pytest's directory: that is closed to others, and a socket's path is short.
        self.directory = pathlib.Path(f"/tmp/redlock-pg-{os.getpid()}")
        self.directory.mkdir(mode=0o700)
        user = {"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {}
        if user:
            shutil.chown(self.directory, "nobody")
        data = self.directory / "data"
        self.server = None
        try:
            output([os.path.realpath(initdb), "-D", data, "-U", "gate", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
                   cwd="/", **user)
            self.server = subprocess.Popen(
                [os.path.realpath(postgres), "-D", data, "-k", self.directory, "-c", "listen_addresses=", "-c", "fsync=off"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", preexec_fn=die_with_us,
                **user)
            self._wait()
            self.ask(recipe("postgresql-table"))
        except BaseException:
            self.close()
            raise

    def _command(self, variables):
        settings = [word for name, value in variables.items() for word in ("-v", f"{name}={value}")]
        return [self.psql, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.directory, "-U", "gate", "-d", "postgres",
                *settings, "-f", "-"]

    def _wait(self):
        end = time.monotonic() + 30
        while subprocess.run(self._command({}), input="SELECT 1;", text=True, capture_output=True, check=False).returncode != 0:
            assert self.server.poll() is None and time.monotonic() < end, "the PostgreSQL server does not come up"
            time.sleep(0.05)

    def ask(self, statement, **variables):
        return output(self._command(variables), input=statement)

    def read(self, fence):
        return number(self.ask(recipe("postgresql-read"), id="alice's", fence=fence))

    def write(self, fence, value):
        done = self.ask(recipe("postgresql-write"), id="alice's", fence=fence, balance=value)
        return value if done == str(fence) else None

    def peek(self):
        return number(self.ask("SELECT balance FROM account;"))

    def close(self):
        if self.server is not None:
            self.server.terminate()
            self.server.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class SharedPostgreSQL(PostgreSQL):
    """With readers."""

    def __init__(self, directory):
        super().__init__(directory)
        self.ask(recipe("postgresql-shared-table"))

    def look(self, fence):
        return number(self.ask(recipe("postgresql-shared-look"), id="alice's", fence=fence))

    def read(self, fence):
        return number(self.ask(recipe("postgresql-shared-read"), id="alice's", fence=fence))

    def write(self, fence, value):
        done = self.ask(recipe("postgresql-shared-write"), id="alice's", fence=fence, balance=value)
        return value if done == str(fence) else None


class SQLite:
    def __init__(self, directory):
        self.sqlite = need("sqlite3")
        self.file = directory / "bank.db"
        self.ask(recipe("sqlite-table"))

    def ask(self, statement, **variables):
        settings = "".join(f".parameter set :{name} {value}\n" for name, value in variables.items())
        return output([self.sqlite, "-batch", "-bail", self.file], input=f".timeout 20000\n{settings}{statement}")

    def read(self, fence):
        return number(self.ask(recipe("sqlite-read"), id="alice", fence=fence))

    def write(self, fence, value):
        done = self.ask(recipe("sqlite-write"), id="alice", fence=fence, balance=value)
        return value if done == str(fence) else None

    def peek(self):
        return number(self.ask("SELECT balance FROM account;"))

    def close(self):
        pass


class SharedSQLite(SQLite):
    """With readers."""

    def __init__(self, directory):
        super().__init__(directory)
        self.ask(recipe("sqlite-shared-table"))

    def look(self, fence):
        return number(self.ask(recipe("sqlite-shared-look"), id="alice", fence=fence))

    def read(self, fence):
        return number(self.ask(recipe("sqlite-shared-read"), id="alice", fence=fence))

    def write(self, fence, value):
        done = self.ask(recipe("sqlite-shared-write"), id="alice", fence=fence, balance=value)
        return value if done == str(fence) else None


class Redis:
    def __init__(self, directory):
        del directory
        need("redis-server")
        self.cli = need("redis-cli")
        self.server = Server("--appendonly", "yes", "--appendfsync", "always")

    def run(self, *arguments):
        done = output([self.cli, "-p", str(self.server.port), "EVAL", recipe("redis"), "1", "account", *map(str, arguments)])
        return (None, True) if done.startswith("FENCED ") else (number(done) or 0, False)

    def read(self, fence):
        return self.run(fence)[0]

    def write(self, fence, value):
        return self.run(fence, value)[0]

    def peek(self):
        return number(output([self.cli, "-p", str(self.server.port), "HGET", "account", "value"])) or 0

    def close(self):
        self.server.close()


class File:
    """The recipe is a whole operation: what is read is what its command sees, and it writes when it is told to go on."""

    def __init__(self, directory):
        self.directory = directory
        self.counter = directory / "counter"
        self.counter.write_text("0\n")
        self.environ = {**os.environ, "PATH": f"{pathlib.Path(os.environ['REDLOCK_BIN']).parent}:{os.environ['PATH']}"}
        self.paused = {}

    def _start(self, fence, pause):
        text = recipe("file").strip()
        if pause:  # the same operation, held between its reading and the end of its command
            head, tail = text.rsplit("'", 1)
            text = f"{head}; echo read >&2; read go'{tail}"
        return subprocess.Popen(["sh", "-c", text], cwd=self.directory, env={**self.environ, "REDLOCK_FENCE": str(fence)}, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def read(self, fence):
        process = self._start(fence, pause=True)
        if process.stderr.readline() != "read\n":
            process.communicate()
            assert process.returncode == 80
            return None
        self.paused[fence] = process
        return self.peek()

    def write(self, fence, value):
        del value  # what its command made of what it read
        process = self.paused.pop(fence, None) or self._start(fence, pause=False)
        process.communicate("go\n")
        assert process.returncode in (0, 80)
        return self.peek() if process.returncode == 0 else None

    def peek(self):
        return int(self.counter.read_text())

    def close(self):
        for process in self.paused.values():
            process.communicate("go\n")


RESOURCES = {"postgresql": PostgreSQL, "postgresql_shared": SharedPostgreSQL, "sqlite": SQLite, "sqlite_shared": SharedSQLite,
             "redis": Redis, "file": File}
