# SPDX-License-Identifier: BSD-2-Clause
"""What an operator does to a native node: it is paused, fails over, shuts down, loads data, becomes a replica, runs out of
memory, its wall clock steps. A server ends by a failed assertion if something is passed on while writes are paused; so in each
state the keys stay as they are, and afterwards all goes on."""
import contextlib
import itertools
import pathlib
import random
import re
import threading
import time

import pytest

import native

HOUR = 3600
NONCE = "000000000000000b"
FENCE = f"FENCE={NONCE}:1:0"
# While it loads data, it serves others each time that it has read so much.
EVENTS = ["--loading-process-events-interval-bytes", "1024"] if native.VERSION >= (7, 0) else []
# By command: requests about the lock "a". Whatever its holder's lock is, they change nothing.
READS = {"pttl": [("a",)], "get": [("a", 9)], "readers": [("a", 9, 0, 0)], "scan": [(0,), (1,)], "queue": [("a",)], "record": [()],
         "fences": [("kept",)], "confirm": [(1, "a", "t", FENCE)], "hello": [(1,)], "state": [()]}


def size_of_log(node):
    return sum(path.stat().st_size for path in pathlib.Path(node.directory).rglob("appendonly*") if path.is_file())


def picture(node):
    return node("GET", "a"), node("DBSIZE"), size_of_log(node)


def look(connection):
    for command, requests in READS.items():
        for words in requests:
            connection.send("REDLOCK." + command, *words)
            connection.receive()  # a refusal will do


class Operated(native.Node):
    """With an append-only file, a replica, a wall clock that can be stepped, and notifications of every change."""

    def __init__(self):
        self.clock = native.WallClock()
        super().__init__(arguments=("--appendonly", "yes", "--repl-ping-replica-period", "3600", "--notify-keyspace-events", "KEA",
                                    "--repl-diskless-sync", "no", *EVENTS), environ=self.clock.environ)
        self.replica = native.Server()
        self.replica.ask("REPLICAOF", "127.0.0.1", self.port)
        native.until(lambda: re.search(rb"slave0:.*state=online", self("INFO", "replication")), what="a replica")
        time.sleep(1.1)  # the module asks about replicas once a second

    def step(self, seconds):
        self.clock.step(seconds)
        native.until(lambda: abs(int(self("TIME")[0]) - time.time() - seconds) < 2)

    def lock_whose_key_stays(self, key="a", ttl=300):
        """It has ended soon, and its key lives for an hour more. The step back must come before the end: a busy machine may need
        another try."""
        while True:
            self.step(HOUR)
            assert self.acquire(key, ttl=ttl) == 1
            self.step(0)
            if self("REDLOCK.PTTL", key) > 0:
                return
            self("DEL", key)
            ttl *= 2

    def waiter(self, name):
        connection = self.connect()
        connection.ask("SUBSCRIBE", f"redlock:wake:{name}")
        return connection

    def is_sound(self):
        log = self.log.lower()
        return self.process.poll() is None and "assert" not in log and "crash" not in log

    def close(self):
        self.replica.close()
        super().close()


@pytest.fixture
def node():
    made = Operated()
    try:
        yield made
        assert made.is_sound(), made.log[-4000:]
    finally:
        made.close()


def test_every_command_that_only_reads_is_in_the_list(node):
    for name, _, flags, *_ in node("COMMAND"):
        if name.lower().startswith(b"redlock."):
            assert (name.decode().lower().removeprefix("redlock.") in READS) == (b"write" not in flags), name


def test_the_states_of_each_call_are_written_down():
    """Somebody who adds a call of the server's has to say in which states of the server it happens."""
    text = pathlib.Path(__file__).parents[2].joinpath("module", "state", "server_api.h").read_text(encoding="utf-8")
    table = text[text.index(" * called by "):text.index("*/", text.index(" * called by "))]
    called = re.findall(r"^    X\([^,]+, (\w+),", text, re.MULTILINE)
    assert len(called) > 50 and [name for name in called if not re.search(rf"\b{name}\b", table)] == []


def test_what_only_reads_leaves_an_ended_lock_where_it_is(node):
    """Also between its end and the server's cron: the readers are faster."""
    readers = [node.connect() for _ in range(3)]
    for _ in range(5):
        node.lock_whose_key_stays(ttl=100)
        while node("REDLOCK.PTTL", "a") != -2:
            for reader in readers:
                look(reader)
        native.until(lambda: node("EXISTS", "a") == 0, 2, "the end of the copy")
        native.until(lambda: node.replica.ask("EXISTS", "a") == 0, 2, "the end of the copy at the replica")


def test_a_write_that_finds_an_ended_lock_ends_it_for_its_first_waiter(node):
    """Between its end and the server's cron. A reservation lasts for 100 ms: on a busy machine a try may come too late."""
    in_time = 0
    for i in range(40):
        key = f"a{i}"
        node.lock_whose_key_stays(key, ttl=100)
        assert node("REDLOCK.WAIT", key, "w", 0, 0, 60000000)[0] == 0
        end = time.monotonic() + max(0, node("REDLOCK.PTTL", key)) / 1000
        native.until(lambda: node("REDLOCK.PTTL", key) == -2)
        answer = node("REDLOCK.LOCK", key, "newcomer", 60000)
        if time.monotonic() < end + 0.08:
            assert answer != 1 and answer != 2 and answer[3] == b"", "it is reserved"
            in_time += 1
        if in_time == 3:
            return
    raise AssertionError("no try came in time")


# ---- paused ------------------------------------------------------------------------------------

@contextlib.contextmanager
def paused(node, kind="WRITE"):
    node("CLIENT", "PAUSE", 60000, kind)
    yield
    node("CLIENT", "UNPAUSE")


@contextlib.contextmanager
def paused_for_all(node):
    """Nobody can end it."""
    end = time.monotonic() + 1.6
    node("CLIENT", "PAUSE", 1600, "ALL")
    yield
    time.sleep(max(0, end - time.monotonic()))


@contextlib.contextmanager
def slow_replica(node):
    """The replica owes what the master has written last."""
    node.replica.pause()
    node("SET", "filler", "x")
    yield
    node.replica.resume()


@contextlib.contextmanager
def failing_over(node):
    with slow_replica(node):
        node("FAILOVER", "TO", "127.0.0.1", node.replica.port)
        assert b"waiting-for-sync" in node("INFO", "replication")
        yield
        assert b"waiting-for-sync" in node("INFO", "replication")
        node("FAILOVER", "ABORT")


@contextlib.contextmanager
def shutting_down(node):
    if native.VERSION < (7, 0):
        pytest.skip("before 7.0 a SHUTDOWN waits for nobody")
    node("CONFIG", "SET", "shutdown-timeout", 60)
    with slow_replica(node):
        operator = node.connect()
        operator.send("SHUTDOWN", "NOSAVE")
        operator.stream.flush()
        native.until(lambda: b"shutdown_in_milliseconds" in node("INFO", "server"))
        yield
        assert b"shutdown_in_milliseconds" in node("INFO", "server")
        node("SHUTDOWN", "ABORT")


STATES = [paused, failing_over, shutting_down]


def check_that_nothing_changes(node):
    before, reader, end = picture(node), node.connect(), time.monotonic() + 0.8
    while time.monotonic() < end:
        look(reader)
    assert picture(node) == before and before[0] == b"t"
    assert node("REDLOCK.PTTL", "a") == -2 and node("REDLOCK.GET", "a", 9) == b"" and node("REDLOCK.READERS", "a", 9, 0, 0) == 0


@pytest.mark.parametrize("state", STATES)
def test_no_key_changes_while_writes_are_paused(node, state):
    waiter, late = node.waiter("w"), node.connect()
    node.lock_whose_key_stays()
    assert node("REDLOCK.WAIT", "a", "w", 0, 0, 60000000)[0] == 0
    with state(node):
        native.until(lambda: node("REDLOCK.PTTL", "a") == -2)
        check_that_nothing_changes(node)
        late.send("REDLOCK.LOCK", "a", "late", 60000)  # is answered afterwards
        late.stream.flush()
    assert late.receive()[:3] == [0, pytest.approx(100, abs=100), -1], "it is reserved for the one that waits"
    assert waiter.receive()[2] == b"turn a"
    native.until(lambda: node("EXISTS", "a") == 0, 2, "the end of the copy")
    native.until(lambda: node.replica.ask("EXISTS", "a") == 0, 2, "the end of the copy at the replica")
    native.until(lambda: node("SET", "a", "stranger", "NX", "PX", 60000) == b"OK", 2)
    assert node.acquire("a")[3] == b"stranger"


@pytest.mark.parametrize("state", STATES)
def test_a_stranger_stays_out_through_a_pause(node, state):
    stranger = node.connect()
    assert node.acquire("a", ttl=60000) == 1
    with state(node):
        stranger.send("SET", "a", "stranger", "NX", "PX", 1000)
        stranger.stream.flush()
        time.sleep(0.3)
        assert node("REDLOCK.GET", "a", 9) == b"t"
    assert stranger.receive() is None
    assert node.extend("a") == node.release("a") == 1


def test_nothing_changes_while_everybody_is_paused(node):
    waiter = node.waiter("w")
    node.lock_whose_key_stays()
    assert node("REDLOCK.WAIT", "a", "w", 0, 0, 60000000)[0] == 0
    log = size_of_log(node)
    with paused_for_all(node):
        time.sleep(0.9)
        assert size_of_log(node) == log and node.replica.ask("GET", "a") == b"t"
    native.until(lambda: node("EXISTS", "a") == 0, 2, "the end of the copy")
    assert waiter.receive()[2] == b"turn a"


def test_a_pause_that_ends_by_itself(node):
    node.lock_whose_key_stays()
    node("CLIENT", "PAUSE", 900, "WRITE")
    native.until(lambda: node("REDLOCK.PTTL", "a") == -2)
    look(node.connection)
    native.until(lambda: node("EXISTS", "a") == 0, 4, "the end of the copy")


def test_a_pause_within_a_transaction(node):
    """What is in the transaction may still write."""
    node.lock_whose_key_stays()
    assert node.acquire("held", "slow", ttl=60000) == 1
    native.until(lambda: node("REDLOCK.PTTL", "a") == -2)
    node("MULTI")
    for words in (("CLIENT", "PAUSE", 700, "WRITE"), ("REDLOCK.PTTL", "a"), ("REDLOCK.UNLOCK", "held", "t"), ("REDLOCK.LOCK", "a", "u", 300),
                  ("REDLOCK.UNLOCK", "slow", "t")):
        node(*words)
    assert node("EXEC") == [b"OK", -2, 1, 1, 1]
    native.until(lambda: node("REDLOCK.PTTL", "a") == -2)
    look(node.connection)
    native.until(lambda: node("DBSIZE") == 0, 4, "the end of the copy")


def test_a_failover_there_and_back(node):
    """The master of before keeps its keys, as a replica. When it is a master again, its ended lock's copy goes."""
    waiter = node.waiter("w")
    node.lock_whose_key_stays()
    assert node("REDLOCK.WAIT", "a", "w", 0, 0, 60000000)[0] == 0
    with slow_replica(node):
        node("FAILOVER", "TO", "127.0.0.1", node.replica.port)
        native.until(lambda: node("REDLOCK.PTTL", "a") == -2)
    native.until(lambda: node("REDLOCK.STATE")[1] == b"replica")
    native.until(lambda: b"master_link_status:up" in node("INFO", "replication"))
    check_that_nothing_changes(node)
    node.replica.ask("FAILOVER", "TO", "127.0.0.1", node.port)
    native.until(lambda: node("REDLOCK.STATE")[1] == b"master")
    native.until(lambda: node("EXISTS", "a") == 0, 2, "the end of the copy")
    assert waiter.receive()[2] == b"turn a"
    native.until(lambda: node.replica.ask("EXISTS", "a") == 0, what="the end of the copy at the replica")


def test_a_shutdown_that_waits_ends(node):
    if native.VERSION < (7, 0):
        pytest.skip("before 7.0 a SHUTDOWN waits for nobody")
    node.lock_whose_key_stays()
    with slow_replica(node):
        node.connection.send("SHUTDOWN", "NOSAVE")
        node.connection.stream.flush()
        time.sleep(0.8)
        look(node.connect())
    assert node.process.wait(10) == 0
    node._start()  # for what is checked after each test
    assert node._answers()


@pytest.mark.parametrize("state", [paused, failing_over, shutting_down])
def test_unloading_in_a_pause_changes_no_key(node, state):
    node.lock_whose_key_stays()
    assert node("REDLOCK.WAIT", "a", "w", 0, 0, 60000000)[0] == 0
    with state(node):
        native.until(lambda: node("REDLOCK.PTTL", "a") == -2)
        before = picture(node)
        assert node("MODULE", "UNLOAD", "redlock") == b"OK"
        time.sleep(0.3)
        assert picture(node) == before


# ---- other states ------------------------------------------------------------------------------

@pytest.mark.parametrize("read_only", ["yes", "no"])
def test_a_replica_changes_nothing(node, read_only):
    with native.server() as master:
        master.ask("SET", "a", "t")  # as our copy, but the master's
        node("CONFIG", "SET", "replica-read-only", read_only)
        assert node.acquire("a", ttl=300) == 1
        node("REPLICAOF", "127.0.0.1", master.port)
        native.until(lambda: node("GET", "a") == b"t" and node("PTTL", "a") == -1)
        native.until(lambda: node("REDLOCK.PTTL", "a") < 0 and b"aof_rewrite_in_progress:0" in node("INFO", "persistence"))
        check_that_nothing_changes(node)
        node("REPLICAOF", "NO", "ONE")
        assert node.acquire("b") == 1


def test_data_is_loaded(node):
    """Slowly: the server serves others meanwhile, and its event loop runs."""
    for i in range(60):
        node("SET", f"filler:{i}", "x" * (2000 if EVENTS else 200000))
    node.lock_whose_key_stays(ttl=600)
    assert node.acquire("held", ttl=60000) == 1
    node("CONFIG", "SET", "rdbcompression", "no")
    node("CONFIG", "SET", "key-load-delay", 20000)  # microseconds
    loader = node.connect()
    loader.send("DEBUG", "RELOAD")
    loader.stream.flush()
    native.until(lambda: b"\nloading:1" in node("INFO", "persistence"))
    native.until(lambda: b"\nloading:0" in node("INFO", "persistence") or look(node.connection))
    assert loader.receive() == b"OK"
    node("CONFIG", "SET", "key-load-delay", 0)
    native.until(lambda: node("EXISTS", "a") == 0, 2, "the end of the copy")
    assert node.acquire("held", token="other")[3] == b"t" and node("GET", "held") == b"t"


@pytest.mark.parametrize("way", ["transaction", "script"])
def test_inside_another_command(node, way):
    """Every command, on a lock whose copy stayed and on one that is held, with others that wait."""
    requests = [("REDLOCK." + command, *words) for command, several in READS.items() for words in several]
    requests += [("REDLOCK.EXTEND", 1, "b", "t", 1000), ("REDLOCK.RELEASE", 1, "a", "t"), ("REDLOCK.ACQUIRE", 2, "a", "c", "t", 300),
                 ("REDLOCK.SHARE", "d", "r", 300), ("REDLOCK.SHAREEXTEND", "d", "r", 400), ("REDLOCK.UNSHARE", "d", "r"),
                 ("REDLOCK.SLOT", "s", "0" * 40 + "/2", 2, "1 2", 300), ("REDLOCK.WAIT", "b", "w", 0, 0, 100000), ("REDLOCK.UNLOCK", "b", "t"),
                 ("REDLOCK.UNWAIT", "b", "w", 0), ("REDLOCK.BREAK", "c", "t", FENCE), ("REDLOCK.RAISE", 1, "c", "t", FENCE)]
    for request in itertools.chain.from_iterable([requests] * 3):
        if node("EXISTS", "a") == 0:
            node.lock_whose_key_stays(ttl=50)
        node("REDLOCK.ACQUIRE", 1, "b", "t", 300)
        if way == "script":
            with contextlib.suppress(native.ServerError):
                node("EVAL", "return redis.call(unpack(ARGV))", 0, *request)
        else:
            node("MULTI"), node(*request), node("SET", "between", "x"), node(*request)
            node("EXEC")
    node.step(0)
    time.sleep(1.2)
    native.until(lambda: sorted(node.replica.ask("KEYS", "*")) == sorted(node("KEYS", "*")), what="the same keys at the replica")


@pytest.mark.skipif(native.VERSION < (7, 0), reason="EVAL_RO is of 7.0")
def test_a_script_that_only_reads_in_a_pause(node):
    node.lock_whose_key_stays()
    with paused(node):
        native.until(lambda: node("REDLOCK.PTTL", "a") == -2)
        before = picture(node)
        for _ in range(20):
            assert node("EVAL_RO", "return redis.call('REDLOCK.PTTL', KEYS[1])", 1, "a") == -2
        assert "rite" in node.error("EVAL_RO", "return redis.call('REDLOCK.UNLOCK', KEYS[1], 't')", 1, "a")
        assert picture(node) == before


def test_out_of_memory(node):
    """Nothing that ends a lock needs memory, nor what only reads."""
    waiter = node.waiter("w")
    node.lock_whose_key_stays()
    assert node("REDLOCK.WAIT", "a", "w", 0, 0, 60000000)[0] == 0 and node.acquire("held", ttl=60000) == 1
    node("CONFIG", "SET", "maxmemory", 1)
    with paused(node):
        native.until(lambda: node("REDLOCK.PTTL", "a") == -2)
        check_that_nothing_changes(node)
    native.until(lambda: node("EXISTS", "a") == 0, 2, "the end of the copy")
    assert waiter.receive()[2] == b"turn a"
    assert node.extend("held") == 1 and node.release("held") == 1 and node.error("REDLOCK.LOCK", "b", "t", 1000).startswith("OOM")


def test_the_wall_clock_back_and_forth(node):
    """Locks that are held over some steps, extended and released; and others that end after one."""
    draw = random.Random(35)
    for i in range(12):
        short = [f"short{k}" for k in range(4)]
        for key in short:
            assert node.acquire(key, ttl=draw.randrange(200, 400)) == 1
        assert node.acquire(f"long{i}", token=f"t{i}", ttl=60000) == 1
        node.step(draw.choice([-1, 1]) * draw.randrange(10, 2 * HOUR))
        held = [key for key in short if node("REDLOCK.PTTL", key) > 0]
        look(node.connection)
        assert node.extend(f"long{draw.randrange(i + 1)}", token=f"t{i}", ttl=70000) in (1, 0, -1)
        if i >= 2:
            assert node.release(f"long{i - 2}", token=f"t{i - 2}") == 1
        native.until(lambda: node.info()["redlock_locks"] == str(min(i + 1, 2)), 3, "the end of the short ones")
        for key in held:
            native.until(lambda: node("EXISTS", key) == 0, 2, f"the end of the copy of {key}")
            native.until(lambda: node.replica.ask("EXISTS", key) == 0, 2, f"the end of the copy of {key} at the replica")
        node("DEL", *short)  # one that ended right before a step back lives again, as any key of a server


# ---- all of it ---------------------------------------------------------------------------------

def test_an_operator_who_does_all_of_it(node):
    """Requests without a pause, by several clients, and an operator who never rests."""
    stop, draw, failed = threading.Event(), random.Random(36), []

    def work(seed):
        mine, connection = random.Random(seed), node.connect()
        try:
            while not stop.is_set():
                key, token = f"k{mine.randrange(5)}", f"t{mine.randrange(4)}"
                request = mine.choice([("REDLOCK.LOCK", key, token, mine.randrange(1, 60)), ("REDLOCK.EXTEND", 1, key, token, mine.randrange(1, 60)),
                                       ("REDLOCK.UNLOCK", key, token), ("REDLOCK.PTTL", key), ("REDLOCK.GET", key, 9), ("REDLOCK.READERS", key, 9, 0, 0),
                                       ("REDLOCK.SCAN", 0), ("REDLOCK.SCAN", 1), ("REDLOCK.SHARE", key, token, mine.randrange(1, 60)),
                                       ("REDLOCK.WAIT", key, token, 0, 0, 50000), ("SET", key, token, "NX", "PX", 5),
                                       ("EVAL", "return redis.call('REDLOCK.GET', KEYS[1], 9)", 1, key)])
                with contextlib.suppress(native.ServerError):
                    connection.ask(*request)
        except OSError as error:
            failed.append(error)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    end = time.monotonic() + 6
    while time.monotonic() < end and node.is_sound():
        pause = draw.randrange(1, 300)
        node.step(draw.choice([0, draw.randrange(-HOUR, HOUR)]))
        node.connection.send(*draw.choice([("CLIENT", "PAUSE", pause, "WRITE"), ("CLIENT", "PAUSE", pause, "ALL"), ("DEBUG", "RELOAD"),
                                           ("CONFIG", "SET", "maxmemory", draw.choice([0, 1])), ("BGREWRITEAOF",), ("FLUSHALL",)]))
        node.connection.receive()  # a refusal will do
        time.sleep(0.05)
        node.connection.send("SET", "filler", "x")
        node.connection.receive()  # a pause is over: it ends by the wall clock, so a step back would prolong it
    stop.set()
    for worker in workers:
        worker.join(20)
    assert failed == [] and node.is_sound(), node.log[-4000:]
