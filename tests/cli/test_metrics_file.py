# SPDX-License-Identifier: BSD-2-Clause
"""run --metrics-file: what a run writes for node_exporter, whole at any time, and never in the lock's way."""
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from conftest import BINARY, Redlock
from processes import gone, holder_of
from servers import until

USAGE, HELD, LOST = 64, 75, 80
PATIENT = "--node-timeout", "400ms"  # on a busy machine a node is late
SAMPLE = re.compile(r'^redlock_run_([a-z_]+)\{resource="((?:[^"\\\n]|\\["\\n])*)",file="[^"]+"\} (\S+)$')


def parse(text):
    """{name: value} and the resource; each name was announced by HELP and TYPE, and the text is whole."""
    assert text.endswith("\n"), text
    values, announced, resources = {}, set(), set()
    for line in text.splitlines():
        words = line.split(" ")
        if words[0] == "#":
            assert words[1] in ("HELP", "TYPE") and (words[1] == "HELP" or words[3] in ("gauge", "counter")), line
            announced.add((words[1], words[2]))
            continue
        match = SAMPLE.match(line)
        assert match, line
        name, resource, value = match.groups()
        assert {("HELP", f"redlock_run_{name}"), ("TYPE", f"redlock_run_{name}")} <= announced and name not in values, line
        values[name] = float(value)
        resources.add(resource)
    assert len(resources) == 1
    return values, resources.pop()


def values_of(path):
    return parse(path.read_text())[0]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "job.prom"


def alone(path):
    """No draft is left next to it."""
    return os.listdir(path.parent) == [path.name]


def test_a_run_that_succeeds(locked, resource, file):
    before = time.time()
    done = locked("run", "-t", "2s", *PATIENT, "--metrics-file", str(file), resource, "--", "sleep", "1.5")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    values, label = parse(file.read_text())
    assert label == resource and alone(file)
    assert (values["held"], values["lost"], values["exit_code"]) == (0, 0, 0)
    assert before - 1 < values["start_time_seconds"] < values["end_time_seconds"] < time.time() + 1
    assert 1.5 <= values["hold_seconds"] < values["end_time_seconds"] - values["start_time_seconds"]
    assert 0 < values["wait_seconds"] < values["end_time_seconds"] - values["start_time_seconds"] - 1.5
    assert values["renewals_total"] >= 1 and values["renewals_failed_total"] == 0
    # At most a TTL after the last renewal.
    assert values["end_time_seconds"] - 1 < values["validity_end_time_seconds"] < values["end_time_seconds"] + 2
    assert file.stat().st_mode & 0o444 == 0o444  # node_exporter is another user


def test_while_it_runs_the_file_is_whole(locked, resource, file):
    process = locked.start("run", "-t", "1200ms", "-k", "50ms", "--grace", "50ms", *PATIENT, "--metrics-file", str(file), resource, "--", "sleep", "4")
    until(lambda: file.exists() and values_of(file)["held"] == 1, what="the lock")
    seen = []
    while process.poll() is None:
        values = values_of(file)
        if not seen or values != seen[-1]:
            seen.append(values)
    assert process.returncode == 0
    held = [values for values in seen if values["held"]]
    assert len(held) > 1 and held[-1]["renewals_total"] > held[0]["renewals_total"]
    assert len(seen) < 10, "at most once a second for renewals"
    assert values_of(file)["exit_code"] == 0 and alone(file)


def test_while_it_waits_and_when_it_gives_up(locked, resource, file):
    assert locked("acquire", "-t", "60s", resource).returncode == 0
    process = locked.start("run", "-w", "2s", *PATIENT, "--metrics-file", str(file), resource, "--", "true")
    until(file.exists, what="the file")
    values = values_of(file)
    assert values["held"] == 0 and "wait_seconds" not in values and "exit_code" not in values
    assert process.wait(10) == HELD
    values = values_of(file)
    assert values["exit_code"] == HELD and values["lost"] == 0
    assert 2 <= values["wait_seconds"] < 9
    assert "hold_seconds" not in values


@pytest.mark.parametrize("status", [0, 3, 80])
def test_the_exit_code(locked, resource, file, status):
    assert locked("run", "--metrics-file", str(file), resource, "--", "sh", "-c", f"exit {status}").returncode == status
    values = values_of(file)
    assert (values["exit_code"], values["lost"]) == (status, 0)


def test_a_lock_that_is_lost(own_quorum, resource, file):
    process = Redlock(own_quorum.nodes).start("run", "-t", "4s", "-k", "200ms", *PATIENT, "--metrics-file", str(file), resource, "--", "sleep", "30")
    until(lambda: file.exists() and values_of(file)["held"] == 1, what="the lock")
    for server in own_quorum.servers[:3]:
        server.pause()
    assert process.wait(10) == LOST
    values = values_of(file)
    assert (values["held"], values["lost"], values["exit_code"]) == (0, 1, LOST)
    assert values["renewals_failed_total"] >= 1


def test_a_holder_that_is_killed(locked, resource, file):
    process = locked.start("run", "-t", "2s", "--metrics-file", str(file), resource, "--", "sleep", "30")
    until(lambda: file.exists() and values_of(file)["held"] == 1, what="the lock")
    holder = holder_of(process.pid)
    os.kill(holder, signal.SIGKILL)
    assert process.wait(10) == LOST
    assert gone(holder)
    values = values_of(file)
    assert (values["held"], values["lost"], values["exit_code"]) == (0, 1, LOST)


def test_names_that_need_escapes(locked, resource, file):
    name = os.fsencode(resource) + b'"\\\n\xff\xc3\xa9'
    assert locked("run", "--metrics-file", str(file), name, "true").returncode == 0
    assert parse(file.read_text())[1] == resource + '\\"\\\\\\n?é'


def test_promtool_reads_it(locked, resource, file):
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    assert locked("run", "--metrics-file", str(file), resource, "true").returncode == 0
    done = subprocess.run([promtool, "check", "metrics"], input=file.read_bytes(), capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def series(path):
    return set(re.findall(r"^(redlock_run_\S+) ", path.read_text(), re.MULTILINE))


@pytest.fixture
def two_jobs(locked, own_quorum, resource, tmp_path):
    """Two jobs of one machine with the same resource, of two quorums; and their files."""
    files = tmp_path / "backup.prom", tmp_path / "report.prom"
    assert locked("run", "--metrics-file", str(files[0]), resource, "true").returncode == 0
    assert Redlock(own_quorum.nodes)("run", "--metrics-file", str(files[1]), resource, "--", "sh", "-c", "exit 3").returncode == 3
    return files


def test_two_files_have_no_series_in_common(two_jobs):
    """One that is there twice makes node_exporter drop both files, or all of its metrics."""
    one, other = map(series, two_jobs)
    assert len(one) == len(other) == 10 and not one & other
    assert all(f'file="{two_jobs[0].name}"' in name for name in one)


def test_node_exporter_collects_both(two_jobs):
    program = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")
    if program is None:
        pytest.skip("node_exporter is not installed (Debian: prometheus-node-exporter)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [program, "--collector.disable-defaults", "--collector.textfile", f"--collector.textfile.directory={two_jobs[0].parent}",
               f"--web.listen-address=127.0.0.1:{port}"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as collector:
        try:
            def page():
                with contextlib.suppress(urllib.error.URLError, ConnectionError):
                    return urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
            text = until(page, what="node_exporter")
        finally:
            collector.terminate()
    assert "node_textfile_scrape_error 0" in text
    exits = re.findall(r'^redlock_run_exit_code\{file="(\w+).prom".*\} (\d)$', text, re.MULTILINE)
    assert exits == [("backup", "0"), ("report", "3")]


# ---- a file that cannot be ----

def directory(path):
    path.mkdir()


def fifo(path):
    os.mkfifo(path)


def link(path):
    path.symlink_to("/dev/null")


@pytest.mark.parametrize("make", [directory, fifo, link])
def test_what_must_not_be_replaced(locked, quorum, resource, file, tmp_path, make):
    make(file)
    before = os.lstat(file)
    done = locked("run", "--metrics-file", str(file), resource, "touch", str(tmp_path / "ran"))
    assert done.returncode == USAGE
    assert f"--metrics-file '{file}' must be a plain file, or absent" in done.stderr.decode()
    assert os.lstat(file).st_ino == before.st_ino and not (tmp_path / "ran").exists()
    assert quorum.values(resource) == [None] * 5


def test_an_empty_name(locked, resource):
    assert locked("run", "--metrics-file", "", resource, "true").returncode == USAGE


def test_a_directory_that_is_not_there_costs_one_warning(locked, quorum, resource, tmp_path):
    done = locked("run", "-t", "1200ms", *PATIENT, "--metrics-file", str(tmp_path / "absent" / "job.prom"), resource, "--", "sh", "-c", "sleep 3; exit 5")
    assert done.returncode == 5
    assert done.stderr.decode() == f"redlock: cannot write the metrics file {tmp_path}/absent/job.prom: No such file or directory\n"


FULL = ("mount -t tmpfs -o size=8k none {0} && echo old >{0}/job.prom && dd if=/dev/zero of={0}/rest bs=4k >/dev/null 2>&1; "
        "[ -s {0}/rest ] || exit 99; {1} run -t 1200ms --node-timeout 400ms --metrics-file {0}/job.prom {2} -- sh -c 'sleep 3; exit 5'; "
        "status=$?; cat {0}/job.prom; ls {0}; exit $status")


def test_a_full_disk_costs_one_warning(locked, resource, tmp_path):
    """The file system is the test's own, and so is its table of mounts."""
    script = FULL.format(tmp_path, BINARY, resource)
    private = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    if subprocess.run([*private, "mount", "-t", "tmpfs", "none", str(tmp_path)], capture_output=True).returncode != 0:
        pytest.skip("no mount namespace")
    done = subprocess.run([*private, "sh", "-c", script], env=locked.environ, capture_output=True, text=True, timeout=30)
    assert done.returncode == 5, done
    assert done.stderr == f"redlock: cannot write the metrics file {tmp_path}/job.prom: No space left on device\n"
    assert done.stdout.split() == ["old", "job.prom", "rest"]  # the old content is whole, and no draft is left


def test_without_the_option_nothing_is_written(locked, resource, tmp_path):
    assert locked("run", resource, "--", sys.executable, "-c", "pass", cwd=tmp_path).returncode == 0
    assert os.listdir(tmp_path) == []
