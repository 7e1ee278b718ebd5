# SPDX-License-Identifier: BSD-2-Clause
"""SIGHUP reads the password file and the files of TLS again, and ends nothing."""
import ctypes
import os
import signal
import subprocess
import time

import pytest

from servers import until


def hup(gateway):
    seen = len(gateway.said)
    os.kill(gateway.process.pid, signal.SIGHUP)
    return lambda words: until(lambda: any(words in line for line in gateway.said[seen:]), what=words)


def thread_count(gateway):
    return len(os.listdir(f"/proc/{gateway.process.pid}/task"))


@pytest.fixture
def password(tmp_path):
    path = tmp_path / "password"
    path.write_text("first\n")
    return path


def test_a_new_password(start, quorum, password, key):
    gateway = start(quorum.nodes, "--password-file", str(password))
    with gateway.connect() as before, gateway.connect() as after:
        assert before("AUTH", "first") == "OK"
        assert before("SET", key, "mine", "NX", "PX", 60000) == "OK"
        password.write_text("second\n")
        assert after.error("AUTH", "second").code == "WRONGPASS"
        hup(gateway)("read again")
        assert after.error("AUTH", "first").code == "WRONGPASS"
        assert after("AUTH", "second") == "OK"
        assert after("GET", key) == b"mine"
        assert before("GET", key) == b"mine", "who is in stays in"
        assert before("DEL", key) == 1


@pytest.mark.parametrize("rubbish, words", [(None, "No such file"), ("", "empty"), ("\n", "1 to 512 bytes")])
def test_a_file_that_cannot_be_used_changes_nothing(start, quorum, password, rubbish, words):
    gateway = start(quorum.nodes, "--password-file", str(password))
    if rubbish is None:
        password.unlink()
    else:
        password.write_text(rubbish)
    hup(gateway)(words)
    with gateway.connect() as client:
        assert client.error("GET", "k").code == "NOAUTH"
        assert client("AUTH", "first") == "OK"


def test_a_file_that_cannot_be_read_for_now_holds_nobody_up(start, quorum, password, key):
    """A pipe that nobody writes to stands for a disk that hangs."""
    gateway = start(quorum.nodes, "--password-file", str(password))
    password.unlink()
    os.mkfifo(password)
    threads = thread_count(gateway)
    hup(gateway)
    # Signals that come together are one.
    until(lambda: thread_count(gateway) > threads, what="the thread that reads")
    hup(gateway)("still being read")
    with gateway.connect() as client:
        assert client("AUTH", "first") == "OK"
        began = time.monotonic()
        assert client("SET", key, "mine", "NX", "PX", 60000) == "OK"
        assert client("DEL", key) == 1
        assert time.monotonic() - began < 2
    gateway.process.terminate()
    assert gateway.process.wait(timeout=15) == 0
    assert not os.path.exists(gateway.path), "the socket is gone"


def make_certificate(path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=ca", "-keyout", f"{path}.key", "-out", path], check=True, capture_output=True)


def test_files_of_tls_are_read_too(start, quorum, password, tmp_path):
    ca = tmp_path / "ca.pem"
    make_certificate(ca)
    gateway = start(quorum.nodes, "--password-file", str(password), "--tls-ca-file", str(ca))
    sound = ca.read_text()
    ca.write_text("rubbish\n")
    password.write_text("second\n")
    hup(gateway)("nothing was changed")
    assert any("ca.pem" in line for line in gateway.said)
    with gateway.connect() as client:
        assert client.error("AUTH", "second").code == "WRONGPASS", "both are changed or none"
        assert client("AUTH", "first") == "OK"
    ca.write_text(sound)
    hup(gateway)("read again")
    with gateway.connect() as client:
        assert client("AUTH", "second") == "OK"


def signal_thread(gateway, thread, number):
    assert ctypes.CDLL(None).tgkill(gateway.process.pid, int(thread), number) == 0


def test_a_signal_does_not_end_the_reading(start, quorum, password):
    """It may come to the thread that reads: neither its open(2) nor its read(2) ends."""
    gateway = start(quorum.nodes, "--password-file", str(password))
    password.unlink()
    os.mkfifo(password)
    tasks = f"/proc/{gateway.process.pid}/task"
    before = set(os.listdir(tasks))
    hup(gateway)
    thread = until(lambda: set(os.listdir(tasks)) - before, what="the thread that reads").pop()
    time.sleep(0.2)
    signal_thread(gateway, thread, signal.SIGHUP)
    time.sleep(0.2)
    with open(password, "w", encoding="ascii") as pipe:
        pipe.write("sec")
        pipe.flush()
        time.sleep(0.2)
        signal_thread(gateway, thread, signal.SIGHUP)
        time.sleep(0.2)
        pipe.write("ond\n")
    with gateway.connect() as client:
        until(lambda: any("read again" in line for line in gateway.said), what="the end of it")
        assert client("AUTH", "second") == "OK"


def test_without_files_nothing_is_read(gateway):
    hup(gateway)("read again")
    with gateway.connect() as client:
        assert client("PING") == "PONG"
