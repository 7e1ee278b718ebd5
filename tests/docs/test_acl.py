# SPDX-License-Identifier: BSD-2-Clause
"""docs/operate/acl.md: the user for every command, as it stands on the page, and what a refusal proposes to another user."""
import json
import re

import pytest

from documents import Document
from servers import started, urls

PAGE = Document("docs/operate/acl.md")
CONFIG = 78
# Of a command that has no place in the page's line: the page says so.
LEFT_OUT = {b"config|get", b"config", b"delex", b"delifeq"}


def allow(servers, line):
    for server in servers:
        server.ask(*line.split())


def configure(shell, servers, text):
    """The page's file, with the servers of the test in place of its names."""
    placeholder = re.search(r"^nodes = (.*)$", text, re.MULTILINE)[1]
    user = re.match(r"redis://(.*?)@", placeholder)[1]
    file = shell.directory / "redlock.conf"
    file.write_text(text.replace(placeholder, urls(*servers).replace("//", f"//{user}@")) + "node-timeout = 250ms\n")
    file.chmod(0o600)
    shell.environ["REDLOCK_CONFIG"] = str(file)


@pytest.fixture
def nodes():
    with started(*[()] * 3) as servers:
        yield servers


def refused(servers):
    """What the servers have refused, apart from what is left out on purpose."""
    entries = [dict(zip(entry[::2], entry[1::2])) for server in servers for entry in server.ask("ACL", "LOG")]
    return {entry[b"object"] for entry in entries} - LEFT_OUT


def every_command(shell, mode):
    """Each command once; whatever the servers refuse is in their log."""
    shell("redlock run nightly -- true")
    shell("redlock run --slots 3 transcode -- true")
    shell("redlock run --shared catalogue -- sh -c 'redlock show catalogue; redlock run --shared catalogue -- true'")
    taken = json.loads(shell("redlock acquire --json --ttl 20s deploy"))
    fence = f"--fence {taken['fence']}" if mode == "guarded" else ""
    assert "deploy: held by " in shell("redlock show") and "deploy: held by " in shell("redlock show deploy")
    assert "1 held" in shell("redlock top --once")
    shell(f"REDLOCK_TOKEN={taken['token']} redlock extend --ttl 20s {fence} deploy")
    # A waiter gets the lock when it is released.
    waiter = shell.start("redlock run --wait 15s deploy -- echo mine")
    shell("redlock wait --wait 1s deploy", status=75)
    shell(f"REDLOCK_TOKEN={taken['token']} redlock release deploy")
    assert waiter.communicate(timeout=30)[0] == "mine\n" and waiter.returncode == 0
    shell("redlock wait deploy")
    shell("redlock acquire --ttl 20s deploy")
    assert "broke 'deploy'" in shell("redlock break --yes --no-syslog --reason test deploy")
    for kind in ("--slots 2", "--shared"):
        taken = json.loads(shell(f"redlock acquire --json --ttl 20s {kind} other"))
        name, shared = taken.get("slot_resource", "other"), "--shared" if kind == "--shared" else ""
        shell(f"REDLOCK_TOKEN={taken['token']} redlock release {shared} {name}")
    leads = shell("redlock elect --once lead -- redlock watch --once lead" if mode == "guarded" else "redlock elect --once lead -- echo leads")
    assert "leads" in leads
    assert "Fit to hold locks: 0 errors" in shell("redlock doctor")


@pytest.mark.parametrize("mode", ["guarded", "classic"])
def test_one_user_for_every_command(shell, nodes, mode):
    allow(nodes, PAGE.one("", "every command"))
    configure(shell, nodes, PAGE.one("ini", "every command").replace("mode = guarded", f"mode = {mode}"))
    if mode == "guarded":
        shell("redlock quorum init --never-used --yes --ttl-max 1m")
        assert "All 3 members are intact." in shell("redlock quorum status")
    every_command(shell, mode)
    assert refused(nodes) == set()


def test_the_same_user_operates_the_quorum(shell, nodes):
    """It changes the members, and brings a server without its data back."""
    with started(()) as (spare,):
        allow([*nodes, spare], PAGE.one("", "every command"))
        configure(shell, nodes, PAGE.one("ini", "every command"))
        shell("redlock quorum init --never-used --yes --ttl-max 500ms")
        nodes[0].ask("FLUSHALL")
        shell("redlock quorum status --wait=30s")
        shell("redlock quorum set-ttl-max --yes 1s")
        shell(f"redlock quorum replace --yes {nodes[2].url} {spare.url.replace('//', '//locks:PASSWORD@')}")
        assert refused([*nodes, spare]) == set()


PROPOSED = re.compile(r"no permission \(ACL\): allow this user (.*)$", re.MULTILINE)


@pytest.mark.parametrize("command", [
    "run nightly -- true", "acquire --ttl 20s nightly", "show nightly", "show", "wait nightly", "run --slots 3 nightly -- true",
    "run --shared nightly -- true", "acquire --shared --ttl 20s nightly", "elect --once nightly -- true",
    "break --yes --no-syslog --reason test nightly"])
@pytest.mark.parametrize("mode", ["guarded", "classic"])
def test_what_a_refusal_proposes_is_enough(shell, nodes, mode, command):
    """A client without the prefix, as the least user: it does what the messages say, as they say it."""
    lines = re.findall(r"^ACL SETUSER locks on >PASSWORD resetkeys ~lock.* resetchannels -@all \+set .*$", PAGE.text, re.MULTILINE)
    allow(nodes, next(line for line in lines if ("~redlock:*" in line) == (mode == "guarded")))
    if mode == "guarded":
        environ = {"REDLOCK_NODES": urls(*nodes), "REDLOCK_MODE": "guarded"}
        shell("redlock quorum init --never-used --yes --ttl-max 1m", environ=environ)
    configure(shell, nodes, PAGE.one("ini", "every command").replace("prefix = lock:\n", "").replace("mode = guarded", f"mode = {mode}"))
    proposals = []
    for _ in range(4):
        process = shell.start(f"redlock {command}")
        said = process.communicate(timeout=60)[0]
        if process.returncode == 0:
            break
        found = set(PROPOSED.findall(said))
        assert process.returncode == CONFIG and len(found) == 1, f"{said}\nafter {proposals}"
        assert all(word[0] in "+~&" for words in found for word in words.split()), f"{said}\nafter {proposals}"
        assert ("prefix = TEXT" in said) == ("~nightly" in said), said
        proposals += found
        allow(nodes, f"ACL SETUSER locks {found.pop()}")
    assert process.returncode == 0, f"{said}\nafter {proposals}"
    assert proposals, "nothing was refused"
