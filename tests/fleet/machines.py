# SPDX-License-Identifier: BSD-2-Clause
"""Machines without a virtual machine: the files of this one under an overlay that is gone afterwards, and systemd as process 1.

A machine has processes, a network, a name and control groups of its own, next to the pods of pods.py. What this build installs is at
/usr/local, and nothing that this machine has enabled is started.
"""
import os
import pathlib
import subprocess

import pytest

from pods import LIBC, SPACES, Pod
from servers import die_with_us, until

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# ROOM TREE: the overlay is in ROOM, TREE lies over the files of this machine.
BOOT = """
read -r _
cd "$1"
mount --make-rprivate /
mount -t tmpfs tmpfs . && cd "$PWD"
mkdir upper work root
mount -t overlay overlay -o "lowerdir=$2:/,upperdir=$PWD/upper,workdir=$PWD/work" root
cd root
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t tmpfs tmpfs tmp
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs dev
mkdir dev/pts dev/shm
ln -s pts/ptmx dev/ptmx
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
for device in null zero full random urandom tty; do touch dev/$device; mount --bind /dev/$device dev/$device; done
# Without the lists of packages, which apt would read each time.
rm -rf etc/redlock* etc/redis/* etc/valkey/* etc/systemd/system/*.wants var/lib/redis/* var/lib/apt/lists/* var/cache/apt/*.bin
# Not by chroot, which makes a process unable to have a user namespace (PrivateUsers=).
pivot_root . mnt
umount -l mnt
mount --make-rshared /
exec env -i container=test "PATH=$3" setpriv --bounding-set=-sys_module,-sys_time,-sys_boot /lib/systemd/systemd --system --unit=basic.target < /dev/null
"""


def mount(kind, place, purpose):
    if LIBC.mount(b"none", str(place).encode(), kind.encode(), 0, None) != 0:
        pytest.skip(f"needs a mount of {kind} {purpose}")


def install(tree):
    subprocess.run(["cmake", "--install", os.environ["REDLOCK_BUILD"], "--prefix", "/usr/local", "--strip"], env={**os.environ, "DESTDIR": str(tree)},
                   check=True, capture_output=True)


class Fleet:
    """What machines have in common: the files of this build, unless they get them by themselves, and a control group."""

    def __init__(self, cluster, directory, installed=True):
        self.cluster, self.directory, self.machines = cluster, directory, []
        if not pathlib.Path("/lib/systemd/systemd").exists():
            pytest.skip("systemd is not installed")
        self.tree = directory / "tree"
        self.tree.mkdir()
        mount("tmpfs", self.tree, "for the files")  # an overlay's directories may not be in each other
        if installed:
            install(self.tree)
        groups = directory / "groups"
        groups.mkdir()
        mount("cgroup2", groups, "for control groups of version 2")
        ours = [line[3:].strip("\n/") for line in open("/proc/self/cgroup", encoding="utf-8") if line.startswith("0::")]
        self.group = groups / ours[0] / f"redlock-test-{os.getpid()}"
        self.group.mkdir()

    def machine(self):
        self.machines.append(Machine(self, len(self.machines) + 1))
        return self.machines[-1]

    def boot(self):
        """Waits until all run."""
        for each in self.machines:
            until(each.up, 60, "systemd")

    def close(self):
        for each in self.machines:
            each.kill()
        for directory, _, _ in os.walk(self.group, topdown=False):
            until(lambda path=directory: not pathlib.Path(path, "cgroup.procs").read_text(), 10, f"the end of {directory}")
            os.rmdir(directory)


class Machine(Pod):
    def __init__(self, fleet, number):
        self.freezer = None
        group, room = fleet.group / str(number), fleet.directory / f"machine-{number}"
        for each in (group, room):
            each.mkdir()

        def begin():
            die_with_us()
            (group / "cgroup.procs").write_text(str(os.getpid()))
        with open(fleet.directory / f"machine-{number}.log", "w", encoding="utf-8") as log:
            self.begin([*SPACES, "--cgroup", "sh", "-ec", BOOT, "sh", str(room), str(fleet.tree), PATH], f"10.42.1.{number}",
                       stdout=log, stderr=log, preexec_fn=begin)
        self.log = pathlib.Path(log.name)

    def up(self):
        if self.shim.poll() is not None:
            pytest.skip(f"no machine can be made here: {self.log.read_text()}")
        return self.run("systemctl", "is-system-running")[0].strip() in ("running", "degraded")

    def start(self, *command, **more):
        more.pop("env", None)
        return subprocess.Popen(["nsenter", "-t", str(self.pid), "-m", "-n", "-p", "-u", "-i", "-C", "--root", "--wd", "env", "-i", f"PATH={PATH}",
                                 *map(str, command)], preexec_fn=die_with_us, stdin=subprocess.DEVNULL, **more)

    def said(self, *command, status=0):
        said, ended = self.run(*command)
        assert ended == status, f"{command}: {ended}\n{said}" + self.run("journalctl", "-n", 30, "--no-pager", "-o", "cat")[0]
        return said

    def read(self, path):
        """What is in a file, or nothing if it is not there."""
        said, status = self.run("cat", path)
        return "" if status else said

    def at(self, path):
        """Where this machine's file is, from outside."""
        where = pathlib.Path(f"/proc/{self.pid}/root{path}")
        where.parent.mkdir(parents=True, exist_ok=True)
        return where

    def write(self, path, text, mode=0o600):
        where = self.at(path)
        where.write_text(text, encoding="utf-8")
        where.chmod(mode)
