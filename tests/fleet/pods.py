# SPDX-License-Identifier: BSD-2-Clause
"""Pods without Kubernetes: processes with a network, processes and names of their own, as a kubelet makes them.

A pod has an address that no pod had before. Its process 1 is the command of its container, so the kernel ends all others with it,
and drops its network: nothing answers at the old address any more, not even with a reset. Names come from a DNS server that the
test changes, as the endpoints of a headless service do.
"""
import contextlib
import ctypes
import os
import pathlib
import signal
import socket
import struct
import subprocess
import threading

import pytest

from processes import children, gone
from servers import die_with_us, until

LIBC = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWNET = 0x20000, 0x40000000
DOMAIN = "locks.svc.cluster.local"
SPACES = ["unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child"]
# ROOT DIRECTORY COMMAND...: waits for its network; then the names are the cluster's. DIRECTORY is mounted at /etc/redlock.
START = """
read -r _ && cd / && root=$1 mounted=$2 && shift 2
mount --make-rprivate / && mount -t proc proc "$root/proc"
for name in resolv.conf nsswitch.conf hosts; do mount --bind "$mounted/../$name" "$root/etc/$name" || exit 71; done
if [ "$root" = / ]; then exec "$@" < /dev/null; fi
mount --bind "$mounted" "$root/etc/redlock" && exec chroot --userspec=65532:65532 "$root" "$@" < /dev/null
"""


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)


def own_network():
    """This process, and what it starts from now on, has a network of its own."""
    if os.getuid() != 0 or LIBC.unshare(NEWNET | NEWNS) != 0:
        pytest.skip("needs root and network namespaces")
    LIBC.mount(b"none", b"/", None, 0x44000, None)  # MS_REC | MS_PRIVATE
    try:
        ip("link", "set", "lo", "up")
        # An address of its own: by default a bridge has the lowest of its ports, and changes it when that pod ends.
        ip("link", "add", "br0", "address", "02:42:0a:2a:00:01", "type", "bridge")
        ip("addr", "add", "10.42.0.1/16", "dev", "br0")
        ip("link", "set", "br0", "up")
    except (OSError, subprocess.CalledProcessError) as why:
        pytest.skip(f"needs ip(8) and a bridge: {why}")


class Names:
    """A DNS server: {name: address}, and the queries that it got."""

    def __init__(self):
        self.known, self.queries = {}, []
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("10.42.0.1", 53))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            query, client = self.socket.recvfrom(2048)
            with contextlib.suppress(IndexError, struct.error):
                self.socket.sendto(self._answer(query, client[0]), client)

    def _answer(self, query, client):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += query[at] + 1
        kind, = struct.unpack_from("!H", query, at + 1)
        name, question = ".".join(labels), query[12:at + 5]
        self.queries.append((client, name, kind))
        address = self.known.get(name)
        answers = b""
        if address and kind == 1:
            answers = struct.pack("!HHHIH4s", 0xC00C, 1, 1, 5, 4, socket.inet_aton(address))
        head = struct.pack("!HHHHHH", struct.unpack_from("!H", query)[0], 0x8580 | (0 if address else 3), 1, int(bool(answers)), 0, 0)
        return head + question + answers


class Cluster:
    def __init__(self, directory):
        self.directory, self.names, self.number, self.pods = directory, Names(), 1, []
        (directory / "redlock").mkdir()
        (directory / "resolv.conf").write_text(f"nameserver 10.42.0.1\nsearch {DOMAIN} svc.cluster.local cluster.local\noptions ndots:5\n")
        (directory / "nsswitch.conf").write_text("hosts: files dns\n")
        (directory / "hosts").write_text("127.0.0.1 localhost\n")

    def pod(self, *command, root="/", name=None, environ=None, output=subprocess.DEVNULL):
        """Starts one; with a name, its endpoint is known at once."""
        self.number += 1
        made = Pod(self, f"10.42.{self.number // 250}.{self.number % 250 + 2}", root, command, environ or {}, output)
        self.pods.append(made)
        if name:
            self.names.known[f"{name}.{DOMAIN}"] = made.address
        return made

    def close(self):
        for each in self.pods:
            each.kill()


class Pod:
    def __init__(self, cluster, address, root, command, environ, output):
        self.root, self.cluster = str(root), cluster
        self.freezer = None
        self.begin([*SPACES, "sh", "-ec", START, "sh", self.root, str(cluster.directory / "redlock"), *map(str, command)], address,
                   stdout=output, stderr=subprocess.STDOUT if output is subprocess.PIPE else output, env={**os.environ, **environ},
                   preexec_fn=die_with_us)

    def begin(self, command, address, **more):
        """Gives it its address, and then a line on its standard input."""
        self.address = address
        self.shim = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True, **more)
        ours, theirs = os.stat("/proc/self/ns/net").st_ino, f"/proc/{self.shim.pid}/ns/net"
        until(lambda: os.stat(theirs).st_ino != ours, 30, "the network of a pod")
        link = f"v{self.shim.pid}"
        ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", self.shim.pid)
        ip("link", "set", link, "master", "br0", "up")
        inside = f"ip link set lo up; ip addr add {address}/16 dev eth0; ip link set eth0 up"
        subprocess.run(["nsenter", "-t", str(self.shim.pid), "-n", "sh", "-ec", inside], check=True)
        self.pid, = until(lambda: children(self.shim.pid), 30, "process 1 of a pod")
        self.shim.stdin.write("go\n")
        self.shim.stdin.close()

    def start(self, *command, **more):
        """A further process in the pod, as `kubectl exec` and probes are."""
        user = [] if self.root == "/" else ["--root", "--wd", "-S", "65532", "-G", "65532"]
        return subprocess.Popen(["nsenter", "-t", str(self.pid), "-m", "-n", "-p", *user, *map(str, command)], preexec_fn=die_with_us,
                                stdin=subprocess.DEVNULL, **more)

    def run(self, *command, environ=None, timeout=60):
        done = self.start(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **(environ or {})})
        try:
            return done.communicate(timeout=timeout)[0], done.returncode
        except subprocess.TimeoutExpired:
            done.kill()
            return done.communicate()[0], None

    @property
    def ended(self):
        return gone(self.pid)

    def term(self):
        """What a kubelet sends first."""
        os.kill(self.pid, signal.SIGTERM)

    def kill(self):
        self.thaw()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.shim.wait()

    def wait(self, seconds):
        self.shim.wait(seconds)
        return self.shim.returncode

    def processes(self):
        """All of them: those in its namespace of processes."""
        space, found = os.stat(f"/proc/{self.pid}/ns/pid").st_ino, []
        for entry in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.stat(entry / "ns/pid").st_ino == space:
                    found.append(int(entry.name))
        return found

    def freeze(self):
        """By the freezer of control groups, as an engine's `pause` does; without one, by SIGSTOP to each."""
        group = pathlib.Path(f"/sys/fs/cgroup/freezer/redlock-test-{self.pid}")
        try:
            group.mkdir()
            self.freezer = group
            for each in self.processes():
                (group / "cgroup.procs").write_text(str(each))
            (group / "freezer.state").write_text("FROZEN")
            until(lambda: (group / "freezer.state").read_text() == "FROZEN\n", 10, "the frozen pod")
        except OSError:
            for each in self.processes():
                os.kill(each, signal.SIGSTOP)
        return "freezer" if self.freezer else "SIGSTOP"

    def thaw(self):
        if self.freezer:
            (self.freezer / "freezer.state").write_text("THAWED")
            for each in (self.freezer / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):
                    (self.freezer.parent / "cgroup.procs").write_text(each)
            until(lambda: not (self.freezer / "cgroup.procs").read_text(), 10, "the end of the freezer")
            self.freezer.rmdir()
            self.freezer = None
        elif not self.ended:
            with contextlib.suppress(OSError):
                for each in self.processes():
                    os.kill(each, signal.SIGCONT)
