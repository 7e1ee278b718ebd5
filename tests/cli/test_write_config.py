# SPDX-License-Identifier: BSD-2-Clause
"""quorum init --write-config: clients that read the file stay guarded, also when every record is lost."""
import json
import os
import pathlib
import re
import resource as limits
import signal
import stat
import tempfile
import time

import pytest

from servers import started, until


@pytest.fixture
def servers():
    with started((), (), ()) as three:
        yield three


def nodes_of(servers, password=None):
    return ",".join(f"redis://{':' + password + '@' if password else ''}127.0.0.1:{server.port}" for server in servers)


def init(redlock, servers, path, *more, nodes=None, **process):
    return redlock("quorum", "init", "-N", nodes or nodes_of(servers), "--never-used", "--yes", "--ttl-max", "5s", "--write-config", str(path), *more, **process)


def test_a_client_with_the_file_never_locks_as_classic(redlock, servers, resource, tmp_path):
    path = tmp_path / "redlock.conf"
    done = init(redlock, servers, path)
    assert done.returncode == 0
    assert f"redlock: the configuration is written: REDLOCK_CONFIG={path} redlock run ...\n" in done.stderr.decode()
    exported = re.search(r"REDLOCK_QUORUM='([0-9a-f]{16})'", done.stdout.decode())[1]
    keys = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert keys == [f"nodes = {server.url}" for server in servers] + ["mode = guarded", f"quorum = {exported}", "ttl-max = 5000ms", "ttl = 5000ms"]
    assert os.listdir(tmp_path) == ["redlock.conf"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    with_file = {"REDLOCK_CONFIG": str(path)}
    done = redlock("run", resource, "--", "sh", "-c", "echo $REDLOCK_MODE $REDLOCK_QUORUM $REDLOCK_FENCE", environ=with_file)
    assert done.returncode == 0
    assert re.fullmatch(rf"guarded {exported} \d+\n", done.stdout.decode())
    assert redlock("run", "-t", "6s", resource, "true", environ=with_file).returncode == 64  # beyond ttl_max
    report = json.loads(redlock("doctor", "--json", "--samples", "1", environ=with_file).stdout)
    assert "MODE-OPEN" not in [finding["name"] for finding in report["findings"]]

    for server in servers:
        server.ask("FLUSHALL")
    ran = tmp_path / "ran"
    done = redlock("run", "-t", "5s", resource, "--", "touch", str(ran), environ=with_file, timeout=20)
    assert (done.returncode, ran.exists()) == (78, False)
    assert "carries no record" in done.stderr.decode()
    done = redlock("acquire", "-t", "5s", "--mode", "auto", resource, environ=with_file)  # the quorum alone means guarded
    assert done.returncode == 78
    # Without the file nothing can know: the servers look like new ones.
    assert redlock("acquire", "-t", "5s", resource, environ={"REDLOCK_NODES": nodes_of(servers)}).returncode == 0


def test_doctor_warns_where_only_the_file_knows(redlock, servers, tmp_path):
    path = tmp_path / "redlock.conf"
    found = {}
    for name, text in {"ttl_max": "ttl-max = 5s\n", "mode": "ttl-max = 5s\nmode = classic\n", "neither": ""}.items():
        path.write_text("".join(f"nodes = {server.url}\n" for server in servers) + text)
        report = json.loads(redlock("doctor", "--json", "--samples", "1", environ={"REDLOCK_CONFIG": str(path)}).stdout)
        found[name] = {finding["name"]: finding for finding in report["findings"]}
    assert found["ttl_max"]["MODE-OPEN"]["severity"] == "warning"
    assert "has a ttl-max, so a guarded quorum is meant" in found["ttl_max"]["MODE-OPEN"]["why"]
    assert "MODE-OPEN" not in found["mode"] and "MODE-OPEN" not in found["neither"]


@pytest.mark.parametrize("password", ["geheim", "geheim" * 50])
def test_passwords_are_for_the_owner_alone(redlock, resource, tmp_path, password):
    path = tmp_path / "redlock.conf"
    with started(*[("--requirepass", password)] * 3) as servers:
        done = init(redlock, servers, path, nodes=nodes_of(servers, password))
        assert done.returncode == 0
        assert b"geheim" not in done.stdout + done.stderr
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert f"nodes = redis://:{password}@127.0.0.1:{servers[0].port}\n" in path.read_text()
        done = redlock("run", "-t", "5s", resource, "true", environ={"REDLOCK_CONFIG": str(path)})
        assert (done.returncode, done.stderr) == (0, b"")


def test_an_existing_file_stays_unless_forced(redlock, servers, tmp_path):
    path = tmp_path / "redlock.conf"
    path.write_text("precious\n")
    done = init(redlock, servers, path)
    assert (done.returncode, done.stderr.decode()) == (64, f"redlock: {path} exists: --force replaces it, or give another name\n")
    assert path.read_text() == "precious\n"
    assert [server.ask("EXISTS", "redlock:node") for server in servers] == [0, 0, 0]  # nothing else was done either
    assert init(redlock, servers, path, "--force").returncode == 0
    assert "mode = guarded" in path.read_text()
    before = path.read_text()
    assert init(redlock, servers, path, "--force").returncode == 0  # the quorum is there: the file is written again
    assert path.read_text() == before
    other = tmp_path / "other.conf"
    assert init(redlock, servers, other).returncode == 0
    assert other.read_text() == before
    assert sorted(os.listdir(tmp_path)) == ["other.conf", "redlock.conf"]


@pytest.mark.parametrize("options, message", [
    (["status", "--write-config", "x"], "--write-config is for 'redlock quorum init'"),
    (["init", "--force"], "--force is for --write-config"),
    (["init", "--write-config", "/proc/none/x"], "cannot write /proc/none/x: No such file or directory"),
    (["init", "--force", "--write-config", "/dev/null"], "/dev/null cannot be replaced: not a plain file"),
])
def test_refused_before_anything_is_done(redlock, options, message):
    done = redlock("quorum", *options, "-N", "redis://127.0.0.1:1")
    assert message in done.stderr.decode()
    assert done.returncode in (64, 71)


def test_tls_and_replicas_are_written_and_long_names_are_not_cut(redlock, servers, tmp_path):
    ca = tmp_path / "ca.pem"
    ca.write_text("")
    path = tmp_path / "redlock.conf"
    done = init(redlock, servers, path, "--allow-replicas", "--tls-server-name", "db.example.com")
    assert done.returncode == 0
    assert path.read_text().endswith("allow-replicas = yes\ntls-server-name = db.example.com\n")
    done = init(redlock, servers, tmp_path / "long.conf", "--tls-server-name", "n" * 65536)
    assert (done.returncode, done.stderr.decode().splitlines()[-1]) == (64, "redlock: the value of 'tls-server-name' cannot be written into a configuration file")
    assert sorted(os.listdir(tmp_path)) == ["ca.pem", "redlock.conf"]


def test_interrupted_leaves_no_file(redlock, servers, tmp_path):
    """Without --never-used init waits for ttl_max."""
    waits = redlock.start("quorum", "init", "-N", nodes_of(servers), "--yes", "--ttl-max", "30s", "--write-config", str(tmp_path / "redlock.conf"))
    until(lambda: servers[0].ask("EXISTS", "redlock:node") == 1)
    time.sleep(0.3)
    waits.send_signal(signal.SIGINT)
    assert waits.wait(timeout=10) == 130
    assert os.listdir(tmp_path) == []


def test_a_file_that_comes_meanwhile_stays(redlock, servers, tmp_path):
    """Without --never-used init waits for ttl_max."""
    path = tmp_path / "redlock.conf"
    waits = redlock.start("quorum", "init", "-N", nodes_of(servers), "--yes", "--ttl-max", "3s", "--write-config", str(path))
    until(lambda: servers[0].ask("EXISTS", "redlock:node") == 1)
    path.write_text("another's\n")
    said = waits.communicate(timeout=20)[1].decode()
    assert waits.returncode == 64 and f"{path} exists: --force replaces it" in said, said
    assert path.read_text() == "another's\n"
    assert os.listdir(tmp_path) == ["redlock.conf"]


@pytest.mark.parametrize("option", [[], ["--force"]])
def test_a_directory_that_cannot_be_synced(redlock, servers, option):
    """Its user may write and not read it: the file is there all the same, and the message names what is wrong."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "redlock.conf"
        user = 65534 if os.geteuid() == 0 else os.geteuid()
        os.chown(directory, user, -1)
        os.chmod(directory, 0o300)
        done = init(redlock, servers, path, *option, user=user if os.geteuid() == 0 else None)
        os.chmod(directory, 0o755)
        assert done.returncode == 71 and f"cannot sync the directory of {path}: Permission denied" in done.stderr.decode(), done
        assert os.listdir(directory) == ["redlock.conf"] and path.read_text().startswith("# Written by")


def test_a_limit_on_the_size_of_files_is_reported(redlock, servers, tmp_path):
    path = tmp_path / "redlock.conf"
    done = init(redlock, servers, path, preexec_fn=lambda: limits.setrlimit(limits.RLIMIT_FSIZE, (0, 0)))
    assert done.returncode == 71 and f"cannot write {path}: File too large" in done.stderr.decode(), done
    assert os.listdir(tmp_path) == []
    assert init(redlock, servers, path).returncode == 0 and path.exists(), "the same command writes it"
