# SPDX-License-Identifier: BSD-2-Clause
"""The binding on real servers, run by pytest in the environment where the wheel is installed."""
import asyncio
import contextlib
import gc
import multiprocessing
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import redlock
from servers import Quorum, until

SOAK_SECONDS = float(os.environ.get("REDLOCK_SOAK_S", "5"))
TTL = 2


@pytest.fixture(scope="session")
def three():
    with Quorum(3) as quorum:
        yield quorum


@pytest.fixture
def client(three):
    with redlock.Client(three.nodes) as opened:
        yield opened


@pytest.fixture
def name():
    return f"n{random.randrange(1 << 60)}"


def program(text, nodes="", status=0, **more):
    """Runs it with Python's own checks, and all warnings as errors."""
    done = subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c", text], env={**os.environ, "REDLOCK_NODES": nodes},
                          capture_output=True, text=True, timeout=60, check=False, **more)
    assert done.returncode == status, f"status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout, done.stderr


# ---- the page ----

def block(label):
    from documents import Document
    return Document("docs/use/python.md").one("python", label).replace("redis://db1,redis://db2,redis://db3", os.environ["NODES"])


@pytest.fixture
def page(redlock_nodes, monkeypatch):
    monkeypatch.setenv("NODES", redlock_nodes)


def test_page_first(page, capsys):
    exec(block("first"), {})
    said = capsys.readouterr().out
    assert "held for 29" in said and int(said.split()[-1]) > 1 << 50, said


def test_page_of_kubernetes(redlock_nodes, tmp_path):
    """The service of the manifests: after TERM to the one that holds the lock, the other has it."""
    from documents import SOURCE
    manifests = (SOURCE / "packaging/kubernetes/examples.yaml").read_text(encoding="utf-8")
    (tmp_path / "invoices.py").write_text(textwrap.dedent(re.search(r"  invoices.py: \|\n(.*?)\n---", manifests, re.DOTALL)[1]))

    def start():
        return subprocess.Popen([sys.executable, tmp_path / "invoices.py"], env={**os.environ, "REDLOCK_NODES": redlock_nodes},
                                stdout=subprocess.PIPE, text=True)
    with start() as first:
        fence = int(first.stdout.readline().split()[-1])
        with start() as second:
            first.terminate()
            assert first.wait(10) == 0
            assert int(second.stdout.readline().split()[-1]) > fence
            second.terminate()
            assert second.wait(10) == 0


def test_page_asyncio(page):
    fences, scope = [], {}

    async def backup(fence):
        fences.append(fence)

    exec(block("first"), scope)
    scope["backup"] = backup
    exec(block("asyncio"), scope)
    for _ in range(2):  # two loops with one client
        asyncio.run(scope["nightly"]())
    assert len(fences) == 2 and fences[0] < fences[1], fences


def test_page_fence(page):
    from recipes import recipe
    scope, bank = {"READ": recipe("sqlite-read"), "WRITE": recipe("sqlite-write")}, sqlite3.connect(":memory:")
    exec(block("first"), scope)
    exec(block("fence"), scope)
    bank.execute(recipe("sqlite-table"))
    for _ in range(3):
        scope["deposit"](bank, 5)
    balance, fence = bank.execute("SELECT balance, fence FROM account").fetchone()
    assert balance == 15 and fence > 0
    bank.execute("UPDATE account SET fence = fence + 1000000000000")
    with pytest.raises(redlock.Lost):
        scope["deposit"](bank, 5)
    assert bank.execute("SELECT balance FROM account").fetchone() == (15,)


def test_page_others(page):
    scope = {}
    exec(block("first"), scope)
    *kinds, observe = block("others").splitlines()
    mine = {"client": scope["client"], "held": []}
    for line in kinds:
        exec(line.replace("...", "held.append('lock' in locals() and lock.slot)", 1), mine)
    assert len(kinds) == 4 and mine["held"][:2] == [False, False] and mine["held"][2] in (1, 2, 3) and "in client.observe(" in observe
    client = scope["client"]
    with client.elect("scheduler", "host1", ttl=TTL) as lock:
        for leader in client.observe("scheduler"):
            if leader.candidate is not None:
                break
        assert (leader.candidate, leader.term) == (b"host1", lock.fence) and 0 < leader.sure <= TTL
        assert asyncio.run(seen(client)) == leader[:3]


async def seen(client):
    async for leader in client.observe("scheduler"):
        if leader.candidate is not None:
            return leader[:3]


# ---- blocking code ----

def test_blocking_lock(client, name, three):
    lock = client.lock(name, ttl=30, owner="me")
    assert (lock.held, lock.fence, lock.token, lock.slot, lock.validity) == (False, None, None, None, 0)
    with pytest.raises(redlock.Lost):
        lock.check()
    with lock as same:
        assert same is lock and lock.held and 29 < lock.validity < 30 and lock.token.endswith(b":me")
        assert three.values(name) == [lock.token] * 3
        lock.extend(60)
        assert 58 < lock.validity < 60
        assert not client.lock(name).try_acquire()
        with pytest.raises(redlock.Held, match="held by another"), client.lock(name, wait=0.2):
            pass
        with pytest.raises(redlock.Busy):
            lock.acquire()
    assert three.values(name) == [None] * 3
    assert not lock.held and lock.try_acquire()
    lock.release()
    with pytest.raises(redlock.Lost):
        lock.release()


def test_blocking_kinds(client, name):
    with client.lock(name, shared=True), client.lock(name, shared=True):
        assert not client.lock(name).try_acquire()
    with client.lock(name) as writer:
        writer.downgrade()
        with client.lock(name, shared=True):
            pass
    with client.lock(name, slots=2) as one, client.lock(name, slots=2) as two:
        assert {one.slot, two.slot} == {1, 2} and not client.lock(name, slots=2).try_acquire()
    with client.lock([name + "a", name + "b"]):
        assert not client.lock(name + "b").try_acquire()


def test_blocking_errors(client, name, monkeypatch):
    monkeypatch.delenv("REDLOCK_NODES", raising=False)
    monkeypatch.setenv("REDLOCK_CONFIG", "/dev/null")
    with pytest.raises(redlock.BadArgument, match="REDLOCK_NODES"):
        redlock.Client().lock(name).acquire()
    with pytest.raises(ValueError, match="ttl"):
        client.lock(name, ttl=0.001).acquire()
    with pytest.raises(redlock.BadArgument, match="nope"):
        redlock.Client("nope://db").lock(name).acquire()
    for passed in (0, -1, 0.0004):
        with pytest.raises(redlock.BadArgument, match="hold_max"):
            client.lock(name, hold_max=passed)
    with pytest.raises(ValueError, match="NUL"):
        redlock.Client("redis://a\0b")
    with pytest.raises(TypeError):
        client.lock(name, slots=1.5).acquire()
    for mistaken in (lambda: client.lock(3), lambda: client.lock([name, 3]), lambda: client.elect(name, 3), lambda: client.observe(3)):
        with pytest.raises(TypeError):
            mistaken()
    with pytest.raises(redlock.NoQuorum, match="refused") as caught:
        redlock.Client("redis://127.0.0.1:1").lock(name).acquire(0)
    assert caught.value.result == -2 and caught.value.sentence
    with pytest.raises(redlock.Error, match="closed"):
        closed = redlock.Client("redis://127.0.0.1:1")
        closed.close()
        closed.lock(name).acquire()


def test_blocking_waits_for_the_release_and_lets_others_run(client, name):
    lock, turns = client.lock(name), 0
    lock.acquire()
    threads = [threading.Thread(target=lambda: client.lock(name, wait=20).__enter__().release()) for _ in range(8)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        turns += 1
    lock.release()
    for thread in threads:
        thread.join(20)
    assert turns > 1000 and not any(thread.is_alive() for thread in threads)


def test_blocking_one_lock_of_two_threads(client, name):
    held, shared, taken = client.lock(name), client.lock(name), []
    held.acquire()
    thread = threading.Thread(target=lambda: taken.append(shared.acquire(20)))
    thread.start()
    time.sleep(0.2)
    with pytest.raises(redlock.Busy):
        shared.acquire(5)
    held.release()
    thread.join(20)
    assert taken == [None] and shared.held


def test_blocking_interrupted(client, name, three):
    text = f"""
import redlock
print("waits", flush=True)
try:
    with redlock.Client().lock({name!r}): pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    with client.lock(name):
        with subprocess.Popen([sys.executable, "-c", text], env={**os.environ, "REDLOCK_NODES": three.nodes},
                              stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "waits\n"
            time.sleep(1)
            before = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n" and time.monotonic() - before < 1
            assert process.wait(10) == 0


def test_blocking_loss(name):
    lost = []
    with Quorum(5) as five, redlock.Client(five.nodes) as client:
        with pytest.raises(redlock.Lost, match="lost|no quorum") as caught:
            with client.lock(name, ttl=TTL, on_lost=lambda lock: lost.append((lock, time.monotonic()))) as lock:
                for server in five[:2]:
                    server.close()
                time.sleep(1.5 * TTL)
                lock.check()
                assert not lost
                for server in five[2:3]:
                    server.close()
                end = time.monotonic() + lock.validity
                until(lambda: lost, what="the loss")
                assert lost[0][0] is lock and lost[0][1] < end, (lost, end)
                assert threading.current_thread() is threading.main_thread() and not lock.held
        assert caught.value.sentence


def test_blocking_loss_before_the_end_of_a_body_that_fails(client, name, three):
    with pytest.raises(ZeroDivisionError), client.lock(name):
        for server in three.servers:
            server.ask("DEL", name)
        1 / 0
    with pytest.raises(redlock.Lost), client.lock(name):
        for server in three.servers:
            server.ask("DEL", name)


# ---- asyncio ----

def test_async_lock(client, name, three):
    async def use():
        async with client.lock(name, wait=1) as lock:
            assert lock.held and three.values(name) == [lock.token] * 3
            await lock.extend(60)
            assert lock.validity > 58
            assert not await client.async_lock(name).try_acquire()
            with pytest.raises(redlock.Held):
                async with client.lock(name, wait=0.1):
                    pass
        assert three.values(name) == [None] * 3
        with pytest.raises(redlock.Lost):
            await lock.release()
        async with client.async_lock(name, shared=True) as one:
            async with client.lock(name, shared=True):
                await one.downgrade()

    asyncio.run(use())


def test_async_many(client, name):
    async def one(number):
        async with client.lock(f"{name}{number % 100}", ttl=30):
            await asyncio.sleep(0)

    async def many():
        await asyncio.gather(*(one(number) for number in range(500)))

    asyncio.run(many(), debug=True)


def test_async_one_lock_of_many_tasks(client, name):
    async def use():
        inside, lock = 0, client.lock(name)

        async def one():
            nonlocal inside
            async with lock:
                inside += 1
                assert inside == 1
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(one() for _ in range(20)))
        single = client.async_lock(name)
        async with lock:
            first = asyncio.create_task(single.acquire())
            await asyncio.sleep(0.05)
            with pytest.raises(redlock.Busy):
                await single.acquire()
        await first
        extending = asyncio.create_task(single.extend())
        await asyncio.sleep(0)
        extending.cancel()
        await single.__aexit__(None, None, None)
        async with client.lock(name, wait=5):
            pass

    asyncio.run(use())


def test_async_cancelled(client, name, three):
    async def wait():
        async with client.lock(name):
            raise AssertionError("it is held")

    async def use():
        async with client.lock(name):
            waiters = [asyncio.create_task(wait()) for _ in range(10)]
            await asyncio.sleep(0.1)
            for waiter in waiters:
                waiter.cancel()
            assert all(isinstance(each, asyncio.CancelledError) for each in await asyncio.gather(*waiters, return_exceptions=True))
        async with client.lock(name, wait=5):
            pass
        many = [asyncio.create_task(wait_for_nothing(client, f"{name}{i}")) for i in range(50)]
        await asyncio.sleep(0)
        for each in many:
            each.cancel()
        await asyncio.gather(*many, return_exceptions=True)
        for number in range(50):
            async with client.lock(f"{name}{number}", wait=5):
                pass

    asyncio.run(use())
    until(lambda: three.values(name) == [None] * 3)


async def wait_for_nothing(client, name):
    async with client.lock(name):
        await asyncio.sleep(10)


def test_async_loss(name):
    lost, told = [], []

    async def hold(client, five):
        async with client.lock(name, ttl=TTL, on_lost=lost.append) as lock:
            for server in five[:2]:
                server.close()
            await asyncio.sleep(1.5 * TTL)
            lock.check()
            five[2].close()
            end = time.monotonic() + lock.validity
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                told.append(end - time.monotonic())
                raise

    async def main(five):
        with redlock.Client(five.nodes) as client:
            with pytest.raises(redlock.Lost):
                await hold(client, five)
        task = asyncio.current_task()
        assert not hasattr(task, "cancelling") or task.cancelling() == 0
        await asyncio.sleep(0)

    with Quorum(5) as five:
        asyncio.run(main(five))
    assert len(lost) == 1 and told[0] > 0, (lost, told)


def test_async_loop_that_stands_still_keeps_its_lock(client, name, three):
    async def use():
        async with client.lock(name, ttl=0.6):
            time.sleep(2)
            assert three.servers[0].ask("PTTL", name) > 0

    asyncio.run(use())


def test_async_loss_met_at_the_end(client, name, three):
    """The body does not wait: it meets the cancellation when it leaves, and once."""
    async def use():
        with pytest.raises(redlock.Lost):
            async with client.lock(name, ttl=0.3):
                for server in three.servers:
                    server.pause()
                try:
                    time.sleep(0.6)
                finally:
                    for server in three.servers:
                        server.resume()
        await asyncio.sleep(0.01)

    asyncio.run(use())


def test_async_lost_together_with_the_grant(client, name):
    """The loop stood still for longer than the TTL: the body must not run."""
    async def work():
        async with client.lock(name, ttl=0.5, renew=False):
            pytest.fail("the body ran")

    async def main():
        async with client.lock(name + " first"):
            pass
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        time.sleep(1.2)
        with pytest.raises(redlock.Lost):
            await task

    asyncio.run(main())


def test_async_entered_twice_and_entered_in_another_task(client, name):
    async def main():
        shared = client.lock(name, shared=True, ttl=5)
        async with shared:
            async with shared:
                pass
            assert not await client.async_lock(name).try_acquire()
        lock = client.lock(name + " 2", ttl=5)
        async with contextlib.AsyncExitStack() as stack:
            await asyncio.create_task(stack.enter_async_context(lock))
        assert await client.async_lock(name + " 2").try_acquire()

    asyncio.run(main())


def test_async_what_is_under_way_ends_with_the_lock(client, name):
    async def main():
        async with client.lock(name, ttl=5) as lock:
            extending = asyncio.create_task(lock.extend(60))
            await asyncio.sleep(0)
        with contextlib.suppress(redlock.Error):
            await asyncio.wait_for(extending, 3)
        held = client.async_lock(name)
        await held.acquire()
        with pytest.raises(redlock.Held):  # a deadline that has passed
            await client.async_lock(name).acquire(-0.001)

    asyncio.run(main())


def test_async_a_release_comes_behind_an_extension_that_was_given_up(client, name):
    """As a worker does that is cancelled: `finally: await lock.release()`."""
    async def work(lock):
        await lock.acquire()
        try:
            while True:
                await lock.extend(60)
        finally:
            await lock.release()

    async def main():
        locks = [client.async_lock(f"{name}{number}", ttl=5) for number in range(20)]
        for number, lock in enumerate(locks):
            working = asyncio.create_task(work(lock))
            await asyncio.sleep(0.02 + number * 0.0003)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            assert not lock.held
            assert await client.async_lock(f"{name}{number}").try_acquire()

    asyncio.run(main())


def test_async_another_loop(client, name):
    lock = client.async_lock(name)
    asyncio.run(lock.acquire())
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(lock.release())


def test_blocking_callback_that_exits_or_waits(client, name):
    told = threading.Event()

    def on_lost(_lock):
        try:
            client.lock(name + " b").acquire(1)
        except RuntimeError:
            told.set()
        sys.exit(1)

    lock = client.lock(name, ttl=0.6, hold_max=0.3, on_lost=on_lost)
    with client.lock(name + " b", ttl=5):
        lock.acquire()
        assert told.wait(5)
        with pytest.raises(redlock.Held):  # the thread goes on
            client.lock(name + " b").acquire(0.3)


def test_blocking_interrupted_in_a_try(client, name, monkeypatch):
    """^C came while one try was inside the library, which took the lock."""
    class Interrupted:
        def __getattr__(self, attribute):
            return getattr(real, attribute)

        def shim_try(self, *arguments):
            assert real.shim_try(*arguments) == real.REDLOCK_OK
            raise KeyboardInterrupt

    with client.lock(name + " first"):  # the nodes are connected
        pass
    real, lock = redlock._lock.lib, client.lock(name)
    monkeypatch.setattr(redlock._lock, "lib", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        lock.acquire()
    monkeypatch.undo()
    assert not lock.held
    with client.lock(name, wait=2):
        pass

def test_async_client_of_one_lock_closes_by_itself(name, three):
    async def use():
        gc.collect()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            async with redlock.Client(three.nodes).lock(name):
                pass
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) == before

    asyncio.run(use())


# ---- processes ----

def in_child(client, name):
    with client.lock(name, wait=0):
        pass


def test_processes_fork(client, name):
    free, held = client.lock(name + "free"), client.lock(name)
    with held:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            said = []
            try:
                for action in held.check, held.release:
                    try:
                        action()
                    except redlock.Forked as why:
                        said.append("parent" in str(why))
                said += [held.held, held.fence, client.lock(name).try_acquire()]
                with free:
                    said.append(free.held)
                said.append(asyncio.run(async_try(client, name + "free")))
                gc.collect()
            except BaseException as why:
                said.append(why)
            os.write(writing, repr(said).encode())
            os._exit(0)
        os.close(writing)
        with open(reading, encoding="utf-8") as told:
            assert told.read() == "[True, True, False, None, False, True, True]"
        os.waitpid(pid, 0)
        held.check()
    assert client.lock(name).try_acquire()


async def async_try(client, name):
    return await client.async_lock(name).try_acquire()


def test_processes_pool(client, name):
    with client.lock(name):
        with multiprocessing.get_context("fork").Pool(4) as pool:
            pool.starmap(in_child, [(client, f"{name}{number}") for number in range(32)])


def test_processes_inherit_a_client(client, name):
    """Not pickled."""
    with client.lock(name):
        process = multiprocessing.get_context("fork").Process(target=lambda: in_child(client, name + "child"))
        process.start()
        process.join(20)
        assert process.exitcode == 0


def daemonize(client, name):
    """Closes all that it inherited, opens files of its own, and goes on."""
    os.closerange(3, 256)
    own = [os.open("/dev/null", os.O_RDONLY) for _ in range(64)]
    with client.lock(name + "daemon"):
        gc.collect()
    for fd in own:
        os.fstat(fd)


def test_processes_daemonize(client, name):
    with client.lock(name) as lock:
        pid = os.fork()
        if pid == 0:
            status = 1
            with contextlib.suppress(BaseException):
                daemonize(client, name)
                status = 0
            os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        lock.check()


def test_processes_fork_from_asyncio(client, name):
    async def use():
        async with client.lock(name) as lock:
            with multiprocessing.get_context("fork").Pool(2) as pool:
                pool.starmap(in_child, [(client, f"{name}{number}") for number in range(8)])
            await asyncio.sleep(0.05)
            lock.check()
            async with client.lock(name + "more"):
                pass

    asyncio.run(use())


# ---- ends ----

ENDS = {
    "held": "lock = redlock.Client().lock('x', on_lost=print); lock.acquire()",
    "cycle": "c = redlock.Client(); l = c.lock('x', on_lost=print); l.acquire(); l.me = l; c.l = l; del c, l; gc.collect()",
    "client first": "c = redlock.Client(); l = c.lock('x'); l.acquire(); c.close(); del c; gc.collect(); l.check(); l.release(); del l",
    "waiting": "c = redlock.Client(); l = c.lock('x'); l.acquire()\n"
               "threading.Thread(target=c.lock('x').acquire, daemon=True).start(); time.sleep(0.2)",
    "observing": "c = redlock.Client()\nthreading.Thread(target=lambda: list(c.observe('x')), daemon=True).start(); time.sleep(0.2)",
    "loop": "async def f():\n c = redlock.Client(); l = c.async_lock('x'); await l.acquire(); sys.keep = l\nasyncio.run(f())",
    "loop dropped": "async def f():\n l = redlock.Client().async_lock('x'); await l.acquire(); del l; gc.collect(); await asyncio.sleep(0.05)\n"
                    "asyncio.run(f())",
    "loop cycle": "async def f():\n c = redlock.Client(); l = c.async_lock('x'); await l.acquire(); l.me = l\nasyncio.run(f()); gc.collect()",
    "loop waiting": "async def f():\n c = redlock.Client(); l = c.async_lock('x'); await l.acquire(); sys.keep = l\n"
                    " t = asyncio.create_task(c.async_lock('x').acquire()); await asyncio.sleep(0.1)\nasyncio.run(f())",
}


@pytest.mark.parametrize("how", ENDS)
def test_ends(how, three):
    said = "".join(program(f"import asyncio, gc, redlock, sys, threading, time\n{ENDS[how]}", three.nodes))
    assert re.sub(r"^Executing <.* took .* seconds$", "", said, flags=re.MULTILINE).strip() == "", said  # a busy machine
    for server in three.servers:
        server.ask("DEL", "x")


def test_ends_with_a_callback_that_raises(three, name, caplog):
    with Quorum(1) as one:
        with redlock.Client(one.nodes) as client:
            def bad(lock):
                raise RuntimeError("from the callback")

            lock = client.lock(name, ttl=0.5, on_lost=bad)
            lock.acquire()
            one[0].close()
            until(lambda: "from the callback" in caplog.text)
            assert not lock.held
        with redlock.Client(three.nodes) as client, client.lock(name):
            pass


# ---- soak ----

def resident_kib():
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


async def one_of(client, random_, name):
    with contextlib.suppress(redlock.Error, asyncio.TimeoutError):
        lock = client.async_lock(name, ttl=5, wait=random_.choice([0, 0.01, 1]))
        if random_.random() < 0.2:
            await asyncio.wait_for(lock.acquire(), 0.002)
            return  # dropped while it is held
        async with lock:
            await asyncio.sleep(random_.random() / 500)


def turn(client, random_, name):
    kind = random_.random()
    if kind < 0.4:
        asyncio.run(burst(client, random_, name))
    elif kind < 0.45:
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(redlock.Error):
                client.lock(name + "child", wait=1, ttl=1).acquire()
            gc.collect()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    elif kind < 0.5:
        with redlock.Client(client._nodes) as other, other.lock(name + "other", on_lost=print):
            pass
    else:
        with contextlib.suppress(redlock.Error), client.lock(name + str(random_.randrange(4)), wait=0.02) as lock:
            lock.extend(random_.choice([None, 40]))
    if random_.random() < 0.1:
        gc.collect()


async def burst(client, random_, name):
    await asyncio.gather(*(one_of(client, random_, f"{name}{random_.randrange(4)}") for _ in range(random_.randrange(30))))


def test_soak(client, name):
    seed = int(os.environ.get("REDLOCK_SOAK_SEED", random.randrange(1 << 30)))
    print("seed", seed)
    random_, start, samples = random.Random(seed), time.monotonic(), []
    while time.monotonic() < start + SOAK_SECONDS:
        turn(client, random_, name)
        if time.monotonic() > start + SOAK_SECONDS / 3:
            gc.collect()
            samples.append((len(os.listdir("/proc/self/fd")), resident_kib(), threading.active_count()))
    third = max(1, len(samples) // 3)
    first, last = samples[:third], samples[-third:]
    for at, slack in ((0, 0), (1, 4096), (2, 0)):
        assert min(each[at] for each in last) <= max(each[at] for each in first) + slack, (first[:3], last[-3:])
