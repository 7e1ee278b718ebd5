# SPDX-License-Identifier: BSD-2-Clause
"""--slots: one of several slots, by run, acquire and show; and a slot as the ordinary lock that it is."""
import json

HELD, CONFIG, USAGE = 75, 78, 64


def acquire(locked, *arguments):
    done = locked("acquire", *arguments)
    assert done.returncode == 0, done.stderr
    words = done.stdout.decode().split()
    return words[0], words[-1]


def test_acquire_release(locked, quorum, resource):
    token, slot = acquire(locked, "--slots", "2", resource)
    assert slot in ("slot:1", "slot:2")
    assert token[40:43] == "/2:"
    assert quorum.holder(f"{resource}:{slot}") == token.encode()
    assert quorum.values(resource) == [None] * 5
    _, other = acquire(locked, "--slots", "2", resource)
    assert {slot, other} == {"slot:1", "slot:2"}
    done = locked("acquire", "--slots", "2", resource)
    assert done.returncode == HELD
    assert f"{resource}: held by others: none of its 2 slots is free" in done.stderr.decode()
    # a slot is a lock: the other commands know it by its name
    done = locked("extend", f"{resource}:{slot}", environ={"REDLOCK_TOKEN": token})
    assert done.returncode == 0, done.stderr
    done = locked("release", f"{resource}:{slot}", environ={"REDLOCK_TOKEN": token})
    assert done.returncode == 0, done.stderr
    assert acquire(locked, "--slots", "2", resource)[1] == slot


def test_slots_that_are_never_free(locked, quorum, resource):
    for server in quorum.servers:
        server.ask("RPUSH", f"{resource}:slot:1", "x")
    said = locked("acquire", "--slots", "1", resource).stderr.decode()
    assert f"none of its 1 slots is free; '{resource}:slot:1': the key holds a list: not a lock" in said
    for server in quorum.servers:
        server.ask("DEL", f"{resource}:slot:1")
        server.ask("SET", f"{resource}:slot:1", "x")
    said = locked("acquire", "--slots", "1", resource).stderr.decode()
    assert f"none of its 1 slots is free; '{resource}:slot:1': the key has no TTL, so it never ends" in said
    for server in quorum.servers:
        server.ask("DEL", f"{resource}:slot:1")


def test_json(locked, resource):
    done = locked("acquire", "--json", "--slots", "3", resource)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["resource"] == resource
    assert told["slots"] == 3 and 1 <= told["slot"] <= 3
    assert told["slot_resource"] == f"{resource}:slot:{told['slot']}"


def test_another_number(locked, resource):
    acquire(locked, "--slots", "5", resource)
    done = locked("acquire", "-w", "10s", "--slots", "2", resource)
    assert done.returncode == CONFIG
    assert "--slots 5" in done.stderr.decode() and "--slots 2" in done.stderr.decode()
    done = locked("acquire", "--json", "--slots", "2", resource)
    told = json.loads(done.stdout)
    assert (done.returncode, told["result"], told["exit"]) == (CONFIG, "other_slots", CONFIG)


def test_run(locked, quorum, resource):
    line = 'echo "$REDLOCK_SLOT $REDLOCK_RESOURCE"; redlock_held=$REDLOCK_TOKEN; test "${redlock_held#*/4}" != "$redlock_held"'
    done = locked("run", "--slots", "4", "-c", line, resource)
    assert done.returncode == 0, done.stderr
    slot, name = done.stdout.decode().split()
    assert slot in "1234" and name == f"{resource}:slot:{slot}"
    assert quorum.values(name) == [None] * 5
    done = locked("run", resource, "--", "sh", "-c", 'echo "${REDLOCK_SLOT-none}"', environ={"REDLOCK_SLOT": "7"})
    assert done.stdout == b"none\n"  # inherited, and another lock's


def test_show(locked, resource):
    _, slot = acquire(locked, "--slots", "3", "-o", "carol", resource)
    done = locked("show", "--slots", "3", "--json", resource)
    told = json.loads(done.stdout)["locks"] if isinstance(json.loads(done.stdout), dict) else json.loads(done.stdout)
    held = [lock for lock in told if lock["verdict"] == "held"]
    assert len(told) == 3 and [lock["resource"] for lock in held] == [f"{resource}:{slot}"]
    assert b"carol" in locked("show", f"{resource}:{slot}").stdout


def test_refused(locked, resource):
    for number in ("0", "65", "x"):
        done = locked("acquire", "--slots", number, resource)
        assert done.returncode == USAGE
        assert b"from 1 to 64" in done.stderr
