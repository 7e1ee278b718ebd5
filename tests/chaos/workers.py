# SPDX-License-Identifier: BSD-2-Clause
"""The programs that contend: of the library, of the command line, and clients of a gateway or of other projects."""
import os
import pathlib
import signal
import subprocess
import sys

from machines import die_with_us, now

HERE = pathlib.Path(__file__).resolve().parent
END_S = 10  # to end after SIGTERM


def clean_environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith("REDLOCK_")}
    return {**kept, "REDLOCK_CONFIG": "/dev/null"}


class Worker:
    """One that runs until it is told to end, and is started again when it was killed. Each life has a log of its own."""

    def __init__(self, world, name, command, serves=False):
        self.world, self.kind, self.command, self.serves = world, name, command, serves
        self.client = world.next_client()
        self.life, self.process, self.stopped, self.expected = 0, None, False, False
        self.troubled_until = 0
        self.start()

    @property
    def name(self):
        return f"{self.kind}.{self.life}"

    def start(self):
        self.life += 1
        self.stopped = self.expected = False
        with open(self.world.directory / f"{self.name}.err", "wb") as errors:
            self.process = subprocess.Popen(self.command(self), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                                            env=self.world.environment(self.client), preexec_fn=die_with_us)

    def pause(self):
        self.stopped = True
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self):
        self.stopped = False
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)

    def kill(self):
        self.expected = True
        self.process.kill()
        self.process.wait()
        self.world.reader.close(self.name)
        self.world.judge.died(self.name)

    def look(self):
        """Reads what it wrote; an end that nobody asked for is a violation."""
        self.world.reader.read(self.name)
        status = self.process.poll()
        if status is not None and not self.expected:
            self.expected = True
            self.world.judge.blame("crash", now(), f"{self.name} ended by itself with status {status}: {self.complaint()}")

    def complaint(self):
        return (self.world.directory / f"{self.name}.err").read_text(errors="replace")[-600:]

    def end(self):
        """After SIGTERM."""
        try:
            status = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.world.judge.blame("hang", now(), f"{self.name} does not end after SIGTERM")
            self.process.send_signal(signal.SIGABRT)
            status = self.process.wait()
        if status not in (0, -signal.SIGTERM) and not self.expected:
            self.world.judge.blame("crash", now(), f"{self.name} ended with status {status}: {self.complaint()}")
        self.world.reader.close(self.name)
        self.world.judge.died(self.name)


def linked(world, name, *options, slots=8, program=None):
    def command(worker):
        log, cells = world.directory / f"{worker.name}.log", world.directory / "register"
        return [str(program or world.build / "tests/chaos/chaos_worker"), "-N", world.urls, "-m", world.mode_option,
                "-l", str(log), "-g", str(cells), "-w", worker.name, "-k", str(slots), "-r", str(world.resources),
                "-t", str(world.ttl_ms), "-H", str(world.hold_us), "-s", str(world.seed * 1000 + worker.client * 100 + worker.life),
                *(["-q", world.quorum] if world.quorum else []), *options]
    return Worker(world, name, command)


def script(world, name, *arguments, nodes=True):
    """client.py: what speaks to a gateway, the command line, or another project's client."""
    def command(worker):
        return [sys.executable, "-B", str(HERE / "client.py"), str(world.directory / f"{worker.name}.log"), str(world.resources),
                str(world.ttl_ms), worker.name, *arguments, *([world.urls] if nodes else [])]
    return Worker(world, name, command)


def gateway(world, name, port):
    def command(worker):
        return [str(world.build / "cli/redlock"), "serve", *world.which_quorum,
                "-t", f"{world.ttl_ms}ms", "--listen", f"127.0.0.1:{port}"]
    return Worker(world, name, command, serves=True)


class Runners:
    """`redlock run` again and again, with a command that is inside for as long as it lives."""

    NORMAL = {0, 69, 75, 80, -signal.SIGTERM, 128 + signal.SIGTERM, 128 + signal.SIGKILL}

    def __init__(self, world, count):
        self.world, self.client, self.count, self.begun = world, world.next_client(), count, 0
        self.living = {}

    def look(self):
        self.world.reader.read("run")
        for slot, process in list(self.living.items()):
            status = process.poll()
            if status is None:
                continue
            del self.living[slot]
            # The command of a `redlock run` that was killed is ended by its supervisor, a little later.
            self.world.after(2, lambda slot=slot: self.world.judge.died("run", lambda key: key[0] == slot))
            if status not in self.NORMAL and status != -signal.SIGKILL:
                self.world.judge.blame("crash", now(), f"redlock run ended with status {status}")
        while len(self.living) < self.count and not self.world.ending:
            self._begin()

    def _begin(self):
        world, random = self.world, self.world.random_of_runs
        resource, stay = random.randrange(world.resources), random.choice((5, 50, 400, 1500))
        mark = [str(world.build / "tests/chaos/chaos_mark"), str(world.directory / "run.log"), str(world.directory / "register"),
                str(resource), str(self.begun), str(stay)]
        command = [str(world.build / "cli/redlock"), "run", "-q", *world.which_quorum,
                   "-t", f"{world.ttl_ms}ms", "-w", "1s", "-k", "150ms", "-g", "350ms", "-o", f"run.{self.begun}",
                   f"r{resource}", "--", *mark]
        with open(world.directory / "run.err", "ab") as errors:
            self.living[self.begun] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                                                       env=world.environment(self.client), preexec_fn=die_with_us)
        self.begun += 1

    def kill_one(self, random):
        if not self.living:
            return None
        slot = random.choice(sorted(self.living))
        self.living[slot].kill()
        return f"run.{slot}"

    def end(self):
        for process in self.living.values():
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                self.world.judge.blame("hang", now(), "redlock run does not end")
                process.kill()
                process.wait()
        self.world.reader.close("run")
        self.world.judge.died("run")
