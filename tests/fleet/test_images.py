# SPDX-License-Identifier: BSD-2-Clause
"""The images: each is a valid layout with the same bytes each time, and works from its layout alone, in namespaces."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

from documents import SOURCE
from layout import Image, build
from servers import die_with_us, until

IMAGES = ("redlock", "redlock-serve", "redlock-node")
USER = 65532
# In namespaces of its own, as a container engine does: ROOT COMMAND...
SPACES = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
ENTER = [*SPACES, "sh", "-c", f'mount -t proc proc "$0/proc" && exec chroot --userspec={USER}:{USER} "$0" "$@"']


@pytest.fixture(scope="session")
def images(tmp_path_factory, static, log):
    output = tmp_path_factory.mktemp("images") / "layouts"
    log("\n" + build(output, static=static))
    return output


@pytest.fixture(scope="session")
def roots(images, tmp_path_factory):
    if os.getuid() != 0 or subprocess.run([*SPACES, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs root and namespaces of mounts and processes")
    made = tmp_path_factory.mktemp("roots")
    made.chmod(0o755)
    for name in IMAGES:
        Image(images / name).unpack(made / name)
        (made / name / "proc").mkdir()
    return {name: made / name for name in IMAGES}


@pytest.mark.parametrize("name", IMAGES)
def test_layout(images, name):
    image = Image(images / name)
    config = image.config["config"]
    assert config["User"] == f"{USER}:{USER}" and config["Entrypoint"]
    entries = {f"/{entry.name}": entry for entry in image.entries()}
    assert list(entries) == sorted(entries) and len({entry.mtime for entry in entries.values()}) == 1
    for path, entry in entries.items():
        assert entry.isdir() or entry.isreg(), path
        assert (entry.uid, entry.gid) == (0, 0) and not entry.mode & 0o6000, path
        assert not entry.mode & 0o022 or path == "/tmp", f"others may write {path}"
        assert path == "/tmp" or str(pathlib.PurePosixPath(path).parent) in ("/", *entries), path
    assert entries[config["Entrypoint"][0]].mode & 0o111
    for path in ("/etc/ssl/certs/ca-certificates.crt", "/etc/passwd", "/usr/share/doc/redlock/copyright"):
        assert entries[path].size > 0
    assert not [path for path in entries if re.search(r"/(sh|bash|dash|busybox)$", path)], "a shell"


@pytest.mark.parametrize("name", IMAGES)
def test_bill_of_materials(images, name):
    """It names the packages of all files that are not the project's own, with the versions that are installed."""
    bill = json.loads((images / f"{name}.spdx.json").read_text())
    image, packages = bill["packages"][0], bill["packages"][1:]
    assert (bill["spdxVersion"], bill["dataLicense"]) == ("SPDX-2.3", "CC0-1.0")
    assert f"sha256:{image['checksums'][0]['checksumValue']}" == Image(images / name).digest
    ids = {package["SPDXID"] for package in bill["packages"]} | {"SPDXRef-DOCUMENT"}
    assert len(ids) == len(bill["packages"]) + 1 and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", each) for each in ids)
    assert {end for each in bill["relationships"] for end in (each["spdxElementId"], each["relatedSpdxElement"])} == ids
    said = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *[each["name"] for each in packages]],
                          capture_output=True, text=True, check=True).stdout
    assert {(each["name"], each["versionInfo"]) for each in packages} == {tuple(line.split(" ")) for line in said.splitlines()}
    files = {f"/{entry.name}" for entry in Image(images / name).entries() if entry.isreg()}
    libraries = {path for path in files if ".so." in path}
    listed = subprocess.run(["dpkg-query", "-L", *[each["name"] for each in packages]], capture_output=True, text=True, check=True).stdout
    owned = {os.path.realpath(line) for line in listed.splitlines() if ".so" in line}
    assert {path for path in libraries if os.path.realpath(path) not in owned} == set()
    assert all(f"/usr/share/doc/{each['name']}/copyright" in files for each in packages)


def test_the_same_bytes(images, static, tmp_path):
    """Of the largest one, with another umask, locale and time zone."""
    before = os.umask(0o077)
    try:
        environ = dict(os.environ)
        os.environ.update(TZ="Asia/Tokyo", LC_ALL="C")
        build(tmp_path / "again" / "layouts", "redlock-node", static=static)
    finally:
        os.umask(before)
        os.environ.clear()
        os.environ.update(environ)
    names = [path.relative_to(images) for path in (images / "redlock-node").rglob("*") if path.is_file()] + [pathlib.Path("redlock-node.spdx.json")]
    for name in names:
        assert (images / name).read_bytes() == (tmp_path / "again" / "layouts" / name).read_bytes(), name


def test_what_is_missing_is_named(tmp_path, static):
    tool = SOURCE / "packaging/container/images"
    for arguments, status, text in (
        (["redlok"], 64, "the images are redlock, redlock-serve, redlock-node"),
        (["--static", "/none", "redlock"], 78, "scripts/package static"),
        (["--installed", str(tmp_path), "redlock-node"], 78, f"DESTDIR={tmp_path} cmake --install BUILD --prefix /usr"),
    ):
        done = subprocess.run([tool, "-o", tmp_path, *arguments], capture_output=True, text=True, check=False)
        assert (done.returncode, text in done.stderr) == (status, True), done.stderr


# ---- started from their layouts ----

class Started:
    """The image's own command, with other arguments where some are given, in its root."""

    def __init__(self, image, root, *arguments, environ=None, output=subprocess.DEVNULL):
        config = image.config["config"]
        command = [*config["Entrypoint"], *(arguments or config.get("Cmd", []))]
        clean = dict(variable.split("=", 1) for variable in config["Env"])
        self.process = subprocess.Popen([*ENTER, root, *command], env={**clean, "PATH": "/usr/bin:/usr/sbin:/bin:/sbin", **(environ or {})},
                                        stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_us)

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self.process.kill()
        self.process.wait()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def said(image, root, *arguments, environ, status=0):
    started = Started(image, root, *arguments, environ=environ, output=subprocess.PIPE)
    output = started.process.communicate(timeout=60)[0]
    assert started.process.returncode == status, output
    return output


def test_a_quorum_and_a_gateway(images, roots, log):
    """Three nodes from the image `redlock-node`, made a quorum by `redlock`, a lock there, and one through `redlock-serve`."""
    node, command, gateway = (Image(images / name) for name in ("redlock-node", "redlock", "redlock-serve"))
    with contextlib.ExitStack() as stack:
        begun, ports = time.monotonic(), [free_port() for _ in range(3)]
        for port in ports:
            started = Started(node, roots["redlock-node"], *node.config["config"]["Cmd"], "--port", str(port), "--bind", "127.0.0.1")
            stack.callback(started.close)
        environ = {"REDLOCK_NODES": ",".join(f"redis://127.0.0.1:{port}" for port in ports), "REDLOCK_MODE": "guarded"}

        def answers(port):
            with socket.socket() as connection:
                return connection.connect_ex(("127.0.0.1", port)) == 0
        until(lambda: all(map(answers, ports)), 60, "three nodes")
        said(command, roots["redlock"], "quorum", "init", "--yes", "--never-used", "--ttl-max", "30s", environ=environ)
        assert "All 3 members are intact." in said(command, roots["redlock"], "quorum", "status", environ=environ)
        log(f"three nodes vote {time.monotonic() - begun:.2f} s after the start of the first")
        assert "native" in said(command, roots["redlock"], "doctor", environ=environ)
        assert said(command, roots["redlock"], "run", "job", "--", "/usr/bin/redlock", "version", environ=environ).startswith("redlock ")

        port = free_port()
        started = Started(gateway, roots["redlock-serve"], "--listen", f"127.0.0.1:{port}", environ=environ)
        stack.callback(started.close)
        until(lambda: answers(port), 30, "the gateway")
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(b"SET mine me NX PX 5000\r\n")
            assert connection.recv(100) == b"+OK\r\n"
        assert "mine: held" in said(command, roots["redlock"], "show", "mine", environ=environ)


def test_certificates_and_names(images, roots):
    """The certificates are found, and a name is looked up: the failure is that of the name, not of the image."""
    output = said(Image(images / "redlock"), roots["redlock"], "run", "-n", "x", "--", "/usr/bin/redlock", "version",
                  environ={"REDLOCK_NODES": "rediss://no-such-host.invalid"}, status=69)
    assert "no-such-host.invalid" in output and "certificate" not in output
