# SPDX-License-Identifier: BSD-2-Clause
"""docs/use/fencing.md: the recipes through the gateway, by redis-py with SQLite and node-redis with PostgreSQL. The second client of a
row is the same recipe in another process."""
import contextlib
import json
import pathlib
import shutil
import sqlite3
import subprocess
import sys

import pytest

from documents import SOURCE, Document
from recipes import Missing, PostgreSQL, recipe
from servers import Quorum, accepts, die_with_us, until

sys.path[:0] = [str(SOURCE / "tests" / "interop")]
import peers  # noqa: E402
from peers import installing  # noqa: E402

PAGE = Document("docs/use/fencing.md")

# Each prints the balance that it has read, writes one more when it is told to, and prints how that ended.
PYTHON = """
import secrets, sqlite3, sys
import redis

READ = {read}
WRITE = {write}

{recipe}

def work(balance):
    print(balance, flush=True)
    sys.stdin.readline()
    return balance + 1

print(change(redis.Redis(unix_socket_path=sys.argv[1]), sqlite3.connect(sys.argv[2], timeout=10), work))
"""
NODE = """
import {{ randomBytes }} from "node:crypto";
import {{ once }} from "node:events";
import pg from "pg";
import {{ createClient }} from "redis";

const READ = {read};
const WRITE = {write};

{recipe}

async function work(balance) {{
  console.log(balance);
  await once(process.stdin, "data");
  return balance + 1;
}}

const gateway = await createClient({{ socket: {{ path: process.argv[2] }} }}).connect();
const bank = new pg.Client({{ host: process.argv[3], user: "gate", database: "postgres" }});
await bank.connect();
console.log(await change(gateway, bank, work));
await bank.end();
gateway.destroy();
process.stdin.destroy();
"""


class Packages:
    """tests/docs/node, as bench/peers/installing.py wants it."""
    name, source, needs = "docs", SOURCE / "tests" / "docs" / "node", ["npm", "node"]
    build = installing.default_builds() / name
    log = build.parent / f"{name}.log"
    install_commands = [["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]]

    def command(self, words):
        return words


def statement(kind, name):
    text = recipe(f"{kind}-{name}")
    for number, word in enumerate((":'id'", ":fence", ":balance"), 1):
        text = text.replace(word, f"${number}") if kind == "postgresql" else text
    return text


def program(template, kind, language, name):
    return template.format(read=json.dumps(statement(kind, "read")), write=json.dumps(statement(kind, "write")),
                           recipe=PAGE.one(language, f"recipe: {name}"))


@pytest.fixture
def gateway(shell):
    """The socket of a gateway to three guarded servers. The locks of the recipes live for three seconds."""
    with Quorum(3) as servers:
        shell.environ["REDLOCK_NODES"] = servers.nodes
        shell("redlock quorum init --mode guarded --never-used --yes --ttl-max 1m")
        socket = shell.directory / "gateway.sock"
        process = shell.start(f"exec redlock serve --mode guarded --node-timeout 250ms --listen unix://{socket}")
        until(lambda: accepts(socket), what="the gateway's socket")
        yield socket
        process.terminate()
        assert process.wait(15) == 0


def with_python(shell):
    peer = peers.Peer("redis-py")
    peer.install()
    with contextlib.closing(sqlite3.connect(shell.directory / "bank.db")) as bank:
        bank.executescript(recipe("sqlite-table"))
    text = program(PYTHON, "sqlite", "python", "python").replace("px=30000", "px=3000")
    (shell.directory / "change.py").write_text(text)
    return [peer.build / "venv/bin/python", "-B", shell.directory / "change.py"], shell.directory / "bank.db", lambda: None


def with_node(shell):
    packages = Packages()
    packages.build.parent.mkdir(parents=True, exist_ok=True)
    installing.install(packages)
    if not shutil.which("node"):
        raise Missing("node is not installed")
    database = PostgreSQL(shell.directory)
    text = program(NODE, "postgresql", "js", "node").replace("PX: 30000", "PX: 3000")
    (shell.directory / "change.mjs").write_text(text)
    (shell.directory / "node_modules").symlink_to(packages.build / "node_modules")
    return ["node", shell.directory / "change.mjs"], database.directory, database.close


class Client:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_us)
        self.read = self.process.stdout.readline().strip()

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def ends(self):
        said = self.process.communicate("go\n", timeout=30)[0].strip()
        assert self.process.returncode == 0
        return said


@pytest.mark.parametrize("kind", [with_python, with_node])
def test_a_late_holder_is_refused(shell, gateway, kind):
    try:
        command, bank, close = kind(shell)
    except (Missing, installing.Skipped) as why:
        pytest.skip(str(why))
    command = [str(word) for word in [*command, gateway, bank]]
    with contextlib.ExitStack() as stack:
        stack.callback(close)

        def begin():
            client = Client(command)
            stack.callback(client.kill)
            return client
        first = begin()
        assert first.read == "0"
        assert first.ends() == "done"
        late = begin()
        assert late.read == "1"
        assert begin().read == "held by another"

        def next_one():
            client = begin()
            return client if client.read != "held by another" else None
        following = until(next_one, what="the end of the late one's lock")
        assert following.read == "1"
        assert late.ends() == "lost", "its fence is lower than that of the one that has read by now"
        assert following.ends() == "done"
        last = begin()
        assert last.read == "2"
        assert last.ends() == "done"


def test_every_recipe_through_the_gateway_is_run():
    """The others are those of tests/gate."""
    labels = {block.label for block in PAGE.blocks if block.language in ("python", "js")}
    source = pathlib.Path(__file__).read_text(encoding="utf-8")
    assert labels and [label for label in labels if f'"{label.removeprefix("recipe: ")}"' not in source] == []
