# SPDX-License-Identifier: BSD-2-Clause
"""A peer alone with real servers: nothing of redlock's own is started here, only the programs that hold the peers."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "cli"), str(HERE.parent)]
import peers  # noqa: E402
from servers import Quorum, until  # noqa: E402,F401

SHOWN, NOT_SHOWN, SKIPPED = 0, 1, 77


def warm(program):
    """With its connections made: what follows is about locks."""
    assert program.ask("acquire", "warm", 10000, 5000)["ok"]
    program.ask("release", "warm")


def show(name, quirk, tries=1):
    """Ends with 0 when quirk(peer) says what came of it, with 1 when it returns None as often."""
    peer = peers.Peer(name)
    try:
        peer.install()
    except peers.Skipped as why:
        print(f"{name}: {why}")
        sys.exit(SKIPPED)
    for _ in range(tries):
        if said := quirk(peer):
            print(f"{name}: {said}")
            sys.exit(SHOWN)
    print(f"{name}: it does not show: is it mended?")
    sys.exit(NOT_SHOWN)
