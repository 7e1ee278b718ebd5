# SPDX-License-Identifier: BSD-2-Clause
"""Eight processes that contend for one lock, and what a test does to them."""
import json
import mmap
import os
import signal
import struct
import subprocess

from nodes import until
from processes import state
from servers import die_with_us
from witness import Witness, fence_violations, now, overlaps

RESOURCE = "job"
EIGHT = 8
OK, HELD, NO_QUORUM, EXPIRED, TWICE_LISTED = 0, -1, -2, -3, -11
ALL_VALIDITY = 60000  # to stay inside for: longer than any validity here
SHORT = 10  # ms to stay inside while nothing is staged
EVERYONE, NOBODY = 0, -1


def worker_to_be():
    """In the new process: SIGTERM waits until the worker asks for it, so that none is lost or kills while it begins."""
    die_with_us()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def start_redlock(nodes, *arguments, mode="guarded", settings=()):
    """redlock(1) with these nodes, this mode (None: its default) and no settings but these."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("REDLOCK_")}
    environ = {**clean, "REDLOCK_CONFIG": "/dev/null", "REDLOCK_NODES": nodes, **dict(settings)}
    if mode is not None:
        environ["REDLOCK_MODE"] = mode
    return subprocess.Popen([os.environ["REDLOCK_BIN"], *arguments], env=environ, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end_redlock(process, timeout=60):
    """Its output as text."""
    with process:
        try:
            out, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def redlock(nodes, *arguments, timeout=60, **more):
    return end_redlock(start_redlock(nodes, *arguments, **more), timeout)


def succeed(*arguments, **more):
    done = redlock(*arguments, **more)
    assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def init(nodes, ttl_ms, **more):
    succeed(nodes, "quorum", "init", "--yes", "--never-used", "--ttl-max", f"{ttl_ms}ms", **more)


def wait_intact(nodes, seconds=30, **more):
    done = redlock(nodes, "quorum", "status", f"--wait={seconds}s", **more)
    assert done.returncode == 0, done.stdout + done.stderr


def members(nodes):
    return json.loads(redlock(nodes, "quorum", "status", "--json").stdout)


ALLOW_REPLICAS = {"REDLOCK_ALLOW_REPLICAS": "1"}


class Crowd:
    """Workers with a witness. Closed, they have all left and ended well."""

    def __init__(self, directory, mode, ttl_ms, table=None, node_timeout_ms=300, control="control"):
        self.mode, self.ttl_ms, self.node_timeout_ms, self.table = mode, ttl_ms, node_timeout_ms, table
        self.witness = Witness(directory / "witness")
        self.control_path = directory / control
        self.control_path.write_bytes(bytes(32))
        with open(self.control_path, "r+b") as file:
            self.control = mmap.mmap(file.fileno(), 32)
        self.workers = []

    def start(self, nodes, count=EIGHT, *options, resource=RESOURCE):
        command = [os.environ["HOLES_WORKER"], "-N", nodes, "-m", self.mode, "-r", resource, "-t", str(self.ttl_ms),
                   "-T", str(self.node_timeout_ms), "-c", self.control_path, "-w", self.witness.path, *options]
        command += ["-x", self.table] if self.table else []
        started = [subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=worker_to_be)
                   for _ in range(count)]
        self.workers += started
        return started

    def _write(self, index, value):
        self.control[8 * index:8 * index + 8] = struct.pack("=q", value)

    def _read(self, index):
        return struct.unpack("=q", self.control[8 * index:8 * index + 8])[0]

    def hold(self, ms):
        self._write(0, ms)

    def only(self, pid):
        self._write(1, pid)

    def stop_before_writing(self):
        """Whoever comes first between its look at its validity and its write is stopped there; returns its pid."""
        self._write(3, 1)

        def stopped():
            pid = self._read(3)
            return pid if pid > 1 and state(pid) == "T" else None
        return until(stopped, what="a worker that stops before it writes")

    def quiet(self):
        """Nobody tries, and whoever was inside has left. Who is stopped must go on, or he is waited for."""
        self.only(NOBODY)
        until(lambda: self._read(2) == 0, 20, "nobody inside")

    # ---- looking ----

    def entered(self, count=1, seconds=20, since=None):
        """Waits until so many have come inside from now on, or since then."""
        since = now() if since is None else since
        until(lambda: len(self.entered_since(since)) >= count, seconds, f"{count} more inside")

    def entered_since(self, when):
        return [grant for grant in self.witness.grants() if grant.asked > when]

    def inside(self):
        """The grant of whoever is inside now, the last that came, or None."""
        grants = self.witness.grants(RESOURCE)
        return grants[-1] if grants and grants[-1].left is None and grants[-1].end > now() else None

    # ---- ending ----

    def end(self, workers=None):
        for worker in self.workers if workers is None else workers:
            worker.send_signal(signal.SIGTERM)
            worker.send_signal(signal.SIGCONT)
        for worker in list(self.workers if workers is None else workers):
            assert worker.wait(20) == 0
            self.workers.remove(worker)

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        if kind is None:
            self.end()
        for worker in self.workers:
            worker.kill()
            worker.wait()

    # ---- judging ----

    def two_at_once(self):
        return overlaps(self.witness.grants())

    def no_two_at_once(self):
        grants = self.witness.grants()
        found = overlaps(grants)
        assert found == [], f"two holders at once {len(found)} times; first: {found[0]}"
        return grants

    def fences_grow(self):
        grants = self.witness.grants()
        found = fence_violations(grants)
        assert found == [], f"fences that do not grow {len(found)} times; first: {found[0]}"
        return grants


# ---- a lease on a chosen bare majority ----

class Staged:
    """A holder whose lease lies on two of three nodes: on the third was, when it asked, a key that somebody had left behind
    (an orphan, as a client that dies in the middle of acquiring leaves it)."""

    ORPHAN = "orphan"

    def __init__(self, crowd, voters, third):
        self.crowd, self.voters, self.third = crowd, voters, third

    def prepare(self):
        """While nobody tries."""
        until(lambda: self.third.ask("SET", RESOURCE, self.ORPHAN, "NX", "PX", 20000) == b"OK", what="nobody inside")

    def remove_orphan(self):
        assert self.third.ask("GET", RESOURCE) == self.ORPHAN.encode()
        self.third.ask("DEL", RESOURCE)

    def holder(self, validity_ms=0):
        """Waits for a holder with just these votes and so much validity left."""
        def found():
            grant = self.crowd.inside()
            if grant is None or grant.end - now() < validity_ms * 1e6:
                return None
            tokens = [node.ask("GET", RESOURCE) for node in self.voters]
            return grant if tokens == [grant.token.encode()] * len(tokens) else None
        return until(found, 20, "a holder by a bare majority")

    def is_inside(self, holder):
        grants = self.crowd.witness.grants(RESOURCE)
        return holder.end > now() and any(grant.token == holder.token and grant.left is None for grant in grants)

    def wait_out(self, holder):
        """Until somebody else came inside while the holder was, or the holder is out."""
        def over():
            return self.crowd.two_at_once() or now() > holder.end
        until(over, 20, "the holder out")
        return bool(self.crowd.two_at_once())


def strike(staged, fault):
    """The fault while a lease lies on a bare majority: whether the holder was still inside then, and whether another came."""
    crowd = staged.crowd
    crowd.quiet()
    staged.prepare()
    crowd.hold(ALL_VALIDITY)
    crowd.only(EVERYONE)
    holder = staged.holder(validity_ms=crowd.ttl_ms * 0.6)
    fault()
    staged.remove_orphan()
    hit = staged.is_inside(holder)
    shown = staged.wait_out(holder)
    crowd.hold(SHORT)
    return hit, shown


def show_in_classic(tries, one_try):
    """The number of the try that had two holders at once."""
    for number in range(1, tries + 1):
        if one_try()[1]:
            return number
    raise AssertionError(f"no two holders at once in {tries} tries")


def hit_in_guarded(rounds, one_try, after, misses=8):
    """Rounds in which the fault met a holder inside; the try is told when there were so many."""
    hits = 0
    for number in range(1, rounds + misses + 1):
        hits += one_try()[0]
        after()
        if hits == rounds:
            return number
    raise AssertionError(f"only {hits} of {rounds + misses} tries met a holder inside")
