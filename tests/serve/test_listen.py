# SPDX-License-Identifier: BSD-2-Clause
"""Where it listens, for whom, and what it does not start with."""
import os
import resource
import socket
import stat
import subprocess
import sys

import pytest

import unfiltered
from conftest import BINARY, CLEAN
from resp import Connection
from servers import accepts, until
from test_metrics import page


def refused(quorum, *arguments, environ=None, status=78):
    """What it says, when it does not start. 71: another try may succeed, so systemd tries again."""
    done = subprocess.run([BINARY, "serve", "-N", quorum.nodes, *arguments], env={**CLEAN, **(environ or {})}, capture_output=True,
                          check=False, timeout=20)
    assert done.returncode == status, done
    return done.stderr.decode()


def test_socket_is_the_owners_alone_unless_reported_otherwise(start, quorum):
    assert stat.S_IMODE(os.stat(start(quorum.nodes).path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(start(quorum.nodes, "--socket-mode", "0660").path).st_mode) == 0o660


def test_several_addresses(start, quorum, tmp_path, key):
    gateway = start(quorum.nodes, "--listen", f"unix://{tmp_path}/second,127.0.0.1:0")
    with gateway.connect() as one, Connection(str(tmp_path / "second")) as two, Connection(gateway.address()) as three:
        one("SET", key, "v", "NX", "PX", 20000)
        assert two("GET", key) == three("GET", key) == b"v"
        assert b"addr=127.0.0.1:" in three("CLIENT", "INFO")
        one("DEL", key)
    gateway.terminate()
    assert list(tmp_path.iterdir()) == []


def test_a_live_socket_is_left_to_its_owner(start, quorum):
    gateway = start(quorum.nodes)
    assert "in use" in refused(quorum, "--listen", f"unix://{gateway.path}", status=71)
    with gateway.connect() as client:
        assert client("PING") == "PONG"


def test_what_is_no_socket_is_left_alone(quorum, tmp_path):
    path = tmp_path / "file"
    path.write_text("precious")
    assert "not a socket" in refused(quorum, "--listen", f"unix://{path}")
    assert path.read_text() == "precious"


def test_a_socket_that_another_put_there_is_left(start, quorum):
    gateway = start(quorum.nodes)
    os.unlink(gateway.path)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(gateway.path)
        assert gateway.terminate() == 0
        assert os.path.exists(gateway.path)


def test_addresses_that_others_reach_want_a_password(start, quorum, tmp_path):
    for address in ["0.0.0.0:0", "[::]:0"]:
        assert "password is needed" in refused(quorum, "--listen", address)
    path = tmp_path / "password"
    path.write_text("secret")
    gateway = start(quorum.nodes, "--listen", "0.0.0.0:0", "--password-file", str(path))
    with Connection(("127.0.0.1", gateway.address()[1])) as client:
        assert client.error("PING").code == "NOAUTH"
        assert client("AUTH", "secret") == "OK"
    with open(f"/proc/{gateway.process.pid}/cmdline", "rb") as line:
        assert b"secret" not in line.read()


def both_families(start, quorum, tmp_path, **more):
    """A gateway with the arguments of a pod, which may be of either family."""
    path = tmp_path / "password"
    path.write_text("secret")
    return start(quorum.nodes, "--listen", "0.0.0.0:0,[::]:0", "--metrics", "[::]:0", "--password-file", str(path), listen=False, **more)


def test_both_families(start, quorum, tmp_path):
    gateway = both_families(start, quorum, tmp_path)
    for host in ("0.0.0.0", "[::]"):
        until(lambda: any(f"listening on {host}:" in line for line in gateway.said), what=host)
    assert gateway.address("metrics")[0] == "[::]" and "redlock_node_up" in page(gateway)


def test_a_kernel_without_v6(start, quorum, tmp_path):
    """There [::] is all addresses that it has, and not a reason to end."""
    if not unfiltered.KNOWN:
        pytest.skip("the number of socket is not known here")
    gateway = both_families(start, quorum, tmp_path, preexec=unfiltered.forbid_v6)
    with Connection(("127.0.0.1", gateway.address()[1])) as client:
        assert client.error("PING").code == "NOAUTH"
    assert [line for line in gateway.said if "[::]" in line] == ["redlock: --listen [::]:0: Address family not supported by protocol"]
    assert gateway.address("metrics")[0] == "0.0.0.0" and "redlock_node_up" in page(gateway)


@pytest.mark.parametrize("arguments, says", [
    ((), "no address to listen on"),
    (("--listen", "nonsense"), "neither unix:///PATH nor HOST:PORT"),
    (("--listen", "127.0.0.1:70000"), "neither"),
    (("--listen", "::1:6379"), "neither"),
    (("--listen", "unix://relative"), "begins with a slash"),
    (("--listen", "unix:///" + "x" * 200), "at most 107"),
    (("--listen", "unix:///no/such/directory/socket"), "No such file"),
    (("--listen", "no.such.host.invalid:6379"), "--listen no.such.host.invalid"),
    (("--listen", "127.0.0.1:0", "--password-file", "/no/such/file"), "No such file"),
    (("--listen", "127.0.0.1:0", "--password-file", "/dev/null"), "it is empty"),
    (("--listen", "127.0.0.1:0", "--metrics", "nonsense"), "--metrics nonsense: it is not HOST:PORT"),
])
def test_does_not_start(quorum, arguments, says):
    assert says in refused(quorum, *arguments)


def test_a_port_that_is_taken(quorum):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert "in use" in refused(quorum, "--listen", f"127.0.0.1:{port}", status=71)
        assert "in use" in refused(quorum, "--listen", "127.0.0.1:0", "--metrics", f"127.0.0.1:{port}", status=71)
    assert "Cannot assign" in refused(quorum, "--listen", "192.0.2.1:1", "--password-file", "/etc/hostname", status=71), "an address that is not there yet"


@pytest.mark.parametrize("arguments", [("--connections", "0"), ("--connections", "many"), ("--socket-mode", "0999"), ("--socket-mode", "rw"), ("operand",)])
def test_wrong_command_line(arguments):
    done = subprocess.run([BINARY, "serve", "-N", "redis://127.0.0.1:1", *arguments], env=CLEAN, capture_output=True, check=False, timeout=20)
    assert done.returncode == 64, done


def test_more_connections_than_files_may_be_open(quorum):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    done = subprocess.run([BINARY, "serve", "-N", quorum.nodes, "--listen", "127.0.0.1:0"], env=CLEAN, capture_output=True, check=False,
                          timeout=20, preexec_fn=few)
    assert done.returncode == 78 and b"LimitNOFILE" in done.stderr, done


@pytest.mark.parametrize("count", [5, 8, 100])
def test_too_few_files_for_any_client(quorum, count):
    done = subprocess.run([BINARY, "serve", "-N", quorum.nodes, "--listen", "127.0.0.1:0"], env=CLEAN, capture_output=True, check=False,
                          timeout=20, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count)))
    assert (done.returncode, count < 8 or b"LimitNOFILE=)\n" in done.stderr) == (71, True), done


def test_the_start_names_the_addresses_in_use(start, quorum, tmp_path):
    path = str(tmp_path / "socket")
    gateway = start(quorum.nodes, "--listen", f"127.0.0.1:0,unix://{path}", listen=False)
    host, port = gateway.address()
    said = until(lambda: [line for line in gateway.said if "serving on" in line], what="its addresses")
    assert f"serving on {host}:{port},unix://{path}: " in said[0] and port != 0
    with Connection((host, port)) as client:
        assert client("PING") == "PONG"


def test_starts_before_its_nodes_do(start, key):
    with start("redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3").connect() as client:
        assert client.error("SET", key, "v", "NX", "PX", 20000).code == "NOQUORUM"


# ---- what systemd does ----

LAUNCHER = """
import os, sys
count, command = int(sys.argv[1]), sys.argv[2:]
os.environ["LISTEN_FDS"], os.environ["LISTEN_PID"] = str(count), str(os.getpid())
os.execvp(command[0], command)
"""


def activated(quorum, sockets, *arguments, environ=None):
    """Starts it as a socket unit would: the sockets are descriptors 3 and on."""
    def place():
        copies = [os.dup2(one.fileno(), 100 + number) for number, one in enumerate(sockets)]
        for number, copy in enumerate(copies):
            os.dup2(copy, 3 + number)
            os.close(copy)
    return subprocess.Popen([sys.executable, "-c", LAUNCHER, str(len(sockets)), BINARY, "serve", "-v", "-N", quorum.nodes, *arguments],
                            env={**CLEAN, **(environ or {})}, stderr=subprocess.PIPE, close_fds=False, preexec_fn=place)


@pytest.fixture
def notified(tmp_path):
    """A NOTIFY_SOCKET, and what came there so far."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(10)
        yield {"NOTIFY_SOCKET": str(tmp_path / "notify")}, lambda: receiver.recv(4096)


@pytest.mark.parametrize("count", ["0", "-1", "abc"])
def test_a_number_of_sockets_that_is_none(quorum, count):
    launcher = LAUNCHER.replace("int(sys.argv[1])", "sys.argv[1]")
    done = subprocess.run([sys.executable, "-c", launcher, count, BINARY, "serve", "-N", quorum.nodes, "--listen", "127.0.0.1:0"],
                          env=CLEAN, stderr=subprocess.PIPE, text=True, timeout=20, check=False)
    assert done.returncode == 78 and f"LISTEN_FDS='{count}' is not" in done.stderr, done


def test_activation_and_notification(quorum, tmp_path, key, notified):
    environ, told = notified
    with socket.socket(socket.AF_UNIX) as one, socket.socket() as two:
        one.bind(str(tmp_path / "given"))
        two.bind(("127.0.0.1", 0))
        for listener in (one, two):
            listener.listen()
        process = activated(quorum, [one, two], environ=environ)
        try:
            assert told() == b"READY=1"
            with Connection(str(tmp_path / "given")) as client, Connection(two.getsockname()) as other:
                assert client("SET", key, "v", "NX", "PX", 20000) == "OK"
                assert other("DEL", key) == 1
            process.terminate()
            assert told() == b"STOPPING=1"
            assert process.wait(10) == 0
            assert os.path.exists(tmp_path / "given"), "the socket unit's, not ours"
        finally:
            process.kill()
            process.stderr.close()


def test_what_is_handed_over_must_listen(quorum):
    with socket.socket() as deaf:
        process = activated(quorum, [deaf])
        assert b"not a stream socket that listens" in process.communicate(timeout=10)[1]
        assert process.returncode == 78


def test_a_handed_over_address_that_others_reach_wants_a_password(quorum):
    with socket.socket() as wide:
        wide.bind(("0.0.0.0", 0))
        wide.listen()
        process = activated(quorum, [wide])
        assert b"password is needed" in process.communicate(timeout=10)[1]
        assert process.returncode == 78


def test_settings_may_be_in_the_file(quorum, tmp_path):
    path, config = tmp_path / "gateway", tmp_path / "redlock.conf"
    config.write_text(f"nodes = {quorum.nodes}\nlisten = unix://{path}\nsocket-mode = 0666\nconnections = 1\n")
    process = subprocess.Popen([BINARY, "serve"], env={**CLEAN, "REDLOCK_CONFIG": str(config)}, stderr=subprocess.DEVNULL)
    try:
        until(lambda: accepts(path) and process.poll() is None, what="the socket")
        assert stat.S_IMODE(path.stat().st_mode) == 0o666
        with Connection(str(path)) as client:
            assert client("PING") == "PONG"
    finally:
        process.terminate()
        assert process.wait(10) == 0


def test_a_loopback_port_without_a_password_is_warned_of(start, quorum, tmp_path):
    warning = "every user of this machine can take and delete the locks here"
    assert any(warning in line for line in start(quorum.nodes, "--listen", "127.0.0.1:0").said)
    secret = tmp_path / "password"
    secret.write_text("secret\n")
    secret.chmod(0o600)
    gateway = start(quorum.nodes, "--listen", "127.0.0.1:0", "--password-file", str(secret))
    assert not any(warning in line or "can read it" in line for line in gateway.said)


def test_a_password_file_that_others_can_read_is_warned_of(start, quorum, tmp_path):
    secret = tmp_path / "password"
    secret.write_text("secret\n")
    secret.chmod(0o644)
    gateway = start(quorum.nodes, "--password-file", str(secret))
    assert any(f"all users of this machine can read it: chmod o-r {secret}" in line for line in gateway.said)
