# SPDX-License-Identifier: BSD-2-Clause
"""The package for Node on real servers. cases.js has what runs inside Node."""
import contextlib
import os
import re
import shutil
import socket
import subprocess
import time

import pytest

from conftest import ENVIRON, HERE, SOURCE, install, must, run
from servers import Quorum, Server, die_with_us, server_knows_tls, until

SOAK_SECONDS = os.environ.get("REDLOCK_SOAK_S", "5")


@contextlib.contextmanager
def started(app, case, nodes, **environ):
    process = subprocess.Popen(["node", "--expose-gc", "--unhandled-rejections=strict", "cases.js", case, nodes], cwd=app,
                               env={**ENVIRON, **environ}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_us)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process, status=0, seconds=60):
    said = process.communicate(timeout=seconds)[0]
    assert process.returncode == status, f"status {process.returncode}, not {status}:\n{said}"
    return said


def case(app, name, nodes, status=0, seconds=60, **environ):
    with started(app, name, nodes, **environ) as process:
        return ended(process, status, seconds)


def says(process, words):
    line = process.stdout.readline()
    assert words in line, line + process.communicate(timeout=10)[0]
    return line


def goes_on(process):
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.fixture(scope="module")
def three():
    with Quorum(3) as quorum:
        yield quorum


@pytest.fixture
def quorum(three):
    for server in three.servers:
        server.ask("FLUSHALL")
    return three


@pytest.mark.parametrize("name", ["exclusive", "extend", "kinds", "wrong", "cancel", "lostSilently", "busy", "workers", "raise",
                                  "churn", "collect"])
def test_case(app, quorum, name):
    case(app, name, quorum.nodes)


def test_pool(app, quorum):
    case(app, "pool", quorum.nodes, UV_THREADPOOL_SIZE="1")


def test_soak(app, quorum):
    """REDLOCK_SOAK_S=600 for a long one."""
    case(app, "soak", quorum.nodes, seconds=60 + int(SOAK_SECONDS), REDLOCK_SOAK_S=SOAK_SECONDS)


def test_life_of_the_process(app, quorum):
    assert case(app, "idle", quorum.nodes, seconds=10) == "idle\n"
    assert case(app, "unref", quorum.nodes, seconds=10) == "unref\n"
    until(lambda: quorum.holder("tide") is None, what="the release at exit")
    case(app, "exit", quorum.nodes, status=3, seconds=10)
    until(lambda: quorum.holder("tide") is None, what="the release by process.exit()")
    with started(app, "held", quorum.nodes) as process:
        says(process, "held")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)


def test_lost(app):
    """Two of five nodes are killed, and the lock stays; with the third it is lost, and reported before validity ends."""
    with Quorum(5) as quorum, started(app, "lost", quorum.nodes) as process:
        says(process, "held")
        for server in quorum.servers[:2]:
            server.process.kill()
        goes_on(process)
        says(process, "still held")
        quorum[2].process.kill()
        killed = time.monotonic()
        said = says(process, "lost: tide: lost")
        assert time.monotonic() - killed < 3, "it is reported after the TTL"
        assert re.search(r"127\.0\.0\.1:\d+", said), said
        ended(process)


def test_one_node_hangs(app):
    with Quorum(3) as quorum, started(app, "stopped", quorum.nodes) as process:
        says(process, "connected")
        quorum[0].pause()
        try:
            goes_on(process)
            ended(process)
        finally:
            quorum[0].resume()


def test_guarded(app):
    with Quorum(3) as quorum:
        must(os.environ["REDLOCK_BIN"], "quorum", "init", "--never-used", "--yes", "--ttl-max", "60s", "--nodes", quorum.nodes,
             cwd=app)
        case(app, "guarded", quorum.nodes)


@contextlib.contextmanager
def tls_servers(directory):
    must("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", "key.pem", "-out", "cert.pem",
         "-subj", "/CN=redlock test", "-addext", "subjectAltName=IP:127.0.0.1", cwd=directory)
    with contextlib.ExitStack() as stack:
        urls = []
        for _ in range(3):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            stack.callback(Server("--tls-port", str(port), "--tls-cert-file", str(directory / "cert.pem"), "--tls-key-file",
                                  str(directory / "key.pem"), "--tls-auth-clients", "no", "--tls-ca-cert-file",
                                  str(directory / "cert.pem")).close)
            urls.append(f"rediss://127.0.0.1:{port}")
        yield ",".join(urls)


def test_tls_next_to_the_openssl_of_node(app, tmp_path):
    if not server_knows_tls():
        pytest.skip("this server was built without TLS")
    with tls_servers(tmp_path) as nodes:
        case(app, "tls", nodes, CA=str(tmp_path / "cert.pem"))


def test_modules(app, quorum):
    """import and require() give the same."""
    (app / "esm.mjs").write_text("""
import { Client, LockLost, version } from 'libredlock';
import { createRequire } from 'module';
if (createRequire(import.meta.url)('libredlock/package.json').version !== version) throw new Error(version);
if (createRequire(import.meta.url)('libredlock').LockLost !== LockLost) throw new Error('two modules');
const client = new Client(process.argv[2]);
console.log(await client.using('tide', {}, (lock) => lock.held));
""")
    assert must("node", "esm.mjs", quorum.nodes, cwd=app) == "true\n"


def test_addon_exports_nothing_else(app):
    """The addon needs no library of ours, and hides what it contains from other addons."""
    addon = next(app.rglob("redlock.node"))
    assert addon.match("prebuilds/*/redlock.node"), addon
    said = must("nm", "-D", "--defined-only", str(addon), cwd=app)
    assert {line.split()[-1] for line in said.splitlines()} <= {"napi_register_module_v1",
                                                                "node_api_module_get_api_version_v1"}, said
    assert "libredlock.so" not in must("ldd", str(addon), cwd=app)


def test_from_source(tmp_path, packed_source, package_config, quorum):
    status, said = install(tmp_path, packed_source, PKG_CONFIG_PATH="/nonexistent", PKG_CONFIG_LIBDIR="/nonexistent")
    assert status != 0 and "apt-get install libredlock-dev" in said and "PKG_CONFIG_PATH=DIRECTORY" in said, said
    status, said = install(tmp_path, packed_source, PKG_CONFIG_PATH=package_config)
    assert status == 0, said
    said = must("node", "-e", "new (require('libredlock').Client)(process.argv[1]).using('a', {}, () => console.log('held'))",
                quorum.nodes, cwd=tmp_path)
    assert said == "held\n"


def test_no_addon(tmp_path, packed_source):
    install(tmp_path, packed_source, npm_config_ignore_scripts="true")
    status, said = run("node", "-e", "require('libredlock')", cwd=tmp_path)
    assert status != 0 and f"node {tmp_path}/node_modules/libredlock/build.js" in said, said


def example(kind):
    page = (SOURCE / "docs" / "use" / "node.md").read_text(encoding="utf-8")
    return re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)[1]


def test_first_example(app, compiler, quorum):
    """Typed as it stands on the page: types are checked, and it runs."""
    (app / "nightly.mts").write_text(example("ts"))
    must(*compiler, "nightly.mts", cwd=app)
    assert must("node", "nightly.mjs", cwd=app, REDLOCK_NODES=quorum.nodes) == "part 1\npart 2\npart 3\n"
    assert quorum.holder("nightly") is None


def test_second_example(app, quorum):
    (app / "nightly.cjs").write_text(example("js"))
    assert "held for 29" in must("node", "nightly.cjs", cwd=app, REDLOCK_NODES=quorum.nodes)
    assert quorum.holder("nightly") is None


def test_types(app, compiler):
    """What a program may write, and what it may not."""
    shutil.copy(HERE / "types.ts", app)
    must(*compiler, "--noEmit", "types.ts", cwd=app)
