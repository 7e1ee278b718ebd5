# SPDX-License-Identifier: BSD-2-Clause
"""What clients send that cannot be installed here, command for command; and the shell's recipe of docs/use/serve.md."""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

import pytest

# Redis::DistLock 0.03 (Perl), DistLock.pm: the text with its line ends, for it asks for the digest that it has computed.
DISTLOCK_RELEASE = """
if redis.call( "get", KEYS[1] ) == ARGV[1] then
    return redis.call( "del", KEYS[1] )
else
    return 0
end
"""


@pytest.fixture
def gateway(start, own_quorum):
    """Two of its five nodes are gone."""
    one = start(own_quorum.nodes)
    for server in own_quorum.servers[:2]:
        server.process.kill()
        server.process.wait()
    return one


def test_redis_distlock(gateway, key):
    """new: INFO, SCRIPT LOAD; lock: SET; release: EVALSHA. Its value is 24 random bytes in base64."""
    sha = hashlib.sha1(DISTLOCK_RELEASE.encode()).hexdigest()
    with gateway.connect() as one, gateway.connect() as two:
        for client in (one, two):
            version = re.search(rb"^redis_version:([0-9]+)\.([0-9]+)\.([0-9]+)\r$", client("INFO"), re.MULTILINE)
            assert tuple(map(int, version.groups())) >= (2, 6, 12)
            assert client("SCRIPT", "LOAD", DISTLOCK_RELEASE) == sha.encode()
        assert one("SET", key, "q2ZrXk9m0l6m/2l7p+uB3jvWqA3nS5cR", "NX", "PX", 10000) == "OK"
        assert two("SET", key, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "NX", "PX", 10000) is None
        assert two("EVALSHA", sha, 1, key, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA") == 0
        assert one("EVALSHA", sha, 1, key, "q2ZrXk9m0l6m/2l7p+uB3jvWqA3nS5cR") == 1
        assert two("SET", key, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "NX", "PX", 10000) == "OK"
        assert two("EVALSHA", sha, 1, key, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA") == 1


def shell_recipe():
    text = (pathlib.Path(os.environ["REDLOCK_SOURCE"]) / "docs" / "use" / "serve.md").read_text(encoding="utf-8")
    return re.search(r"^<!-- recipe: shell -->\n```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL).group(1)


def test_the_shells_recipe(gateway, tmp_path):
    if shutil.which("redis-cli") is None:
        pytest.skip("redis-cli is not installed")
    (tmp_path / "nightly").write_text(shell_recipe())
    (tmp_path / "backup.sh").write_text("#!/bin/sh\nredis-cli -s \"$GATEWAY\" EXISTS nightly\nexit 3\n")
    (tmp_path / "backup.sh").chmod(0o700)

    def run():
        return subprocess.run(["sh", "nightly"], cwd=tmp_path, env={**os.environ, "GATEWAY": gateway.path}, capture_output=True, text=True,
                              timeout=30, check=False)
    done = run()
    assert (done.returncode, done.stdout.split()) == (3, ["1"]), done
    with gateway.connect() as client:
        assert client("EXISTS", "nightly") == 0, "it was given back"
        client("SET", "nightly", "another", "NX", "PX", 30000)
        done = run()
        assert (done.returncode, done.stdout) == (75, ""), done
        assert client("GET", "nightly") == b"another"
