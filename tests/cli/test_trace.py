# SPDX-License-Identifier: BSD-2-Clause
"""REDLOCK_TRACE=1: the steps of a lock on standard error, in the words of the golden traces."""
import re


def trace(locked, *arguments, value="1"):
    done = locked("run", "-t", "2s", *arguments, environ={"REDLOCK_TRACE": value})
    assert done.returncode == 0, done.stderr.decode()
    return [line.removeprefix("redlock: ") for line in done.stderr.decode().splitlines()]


def test_one_lock_from_start_to_release(locked, resource):
    lines = trace(locked, resource, "--", "true")
    assert re.fullmatch(rf"[0-9.]+ms {resource}: start", lines[0]), lines[0]
    sent = next(i for i, line in enumerate(lines) if re.fullmatch(r"    -> node\S+ SET \(try 1\)", line))
    won = next(i for i, line in enumerate(lines) if re.fullmatch(r"    == won with node\S+", line))
    released = lines.index("    == release: ok")
    assert sent < won < released
    assert any(re.fullmatch(rf"[0-9.]+ms {resource}: node[1-5] granted", line) for line in lines[sent:won + 1])
    assert any(re.fullmatch(r"    -> node1\.\.5 DEL, if ours", line) for line in lines[won:released])


def test_times_grow(locked, resource):
    times = [float(found[1]) for line in trace(locked, resource, "--", "sleep", "1") if (found := re.match(r"([0-9.]+)ms ", line))]
    assert times == sorted(times) and 900 < times[-1] < 10000, times
    assert any("== renewed, validity" in line for line in trace(locked, resource, "--", "sleep", "1"))


def test_no_secret_and_no_control_character(locked, resource):
    lines = trace(locked, f"{resource}\x1b[31m", "--", "sh", "-c", "echo token=$REDLOCK_TOKEN >&2")
    token = next(line for line in lines if line.startswith("token=")).removeprefix("token=")
    assert len(token) >= 40
    assert not any(token[:40] in line or "\x1b" in line for line in lines if not line.startswith("token="))
    assert any(f"{resource}\\x1b[31m: start" in line for line in lines)


def test_off_unless_1(locked, resource):
    assert trace(locked, resource, "--", "true", value="0") == []
