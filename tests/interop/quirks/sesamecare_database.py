#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""@sesamecare-oss/redlock 1.4: its locks are in database 0, whatever database the connections given to it have selected: each
script begins with SELECT of the library's own option `db`, which is 0 by default. A client of another project with the same URLs,
which name database 3, does not see them."""
import types

import alone


def quirk(peer):
    with alone.Quorum(3) as quorum:
        with peer.begin([types.SimpleNamespace(url=f"{server.url}/3") for server in quorum.servers]) as a:
            if not a.ask("acquire", "r", 30000, 0)["ok"]:
                return None
            spaces = [server.ask("INFO", "keyspace").decode() for server in quorum.servers]
    if not all("db0:keys=1," in space and "db3:" not in space for space in spaces):
        return None
    return "its keys are in database 0 of the servers, and its connections are in database 3"


if __name__ == "__main__":
    alone.show("sesamecare-redlock", quirk)
