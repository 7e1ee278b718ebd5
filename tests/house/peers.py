#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""bench/peers/run with peers that are made up: what it skips and why, what it calculates, and what its table says.

No package manager and no server is asked. usage: peers.py SOURCE_DIR
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

# Says what it is told to, and looks at the protocol from the other side.
PROGRAM = '''
import json, sys, time
told = json.loads({told!r})
kind, workers, warm, opened, ttl, resource = sys.argv[1:]
assert kind in ("cycles", "holds") and int(ttl) > 0 and resource, sys.argv
if "mute" in told:
    sys.exit(told["mute"])
print(json.dumps({{"version": "1.2", "defaults": "none"}}), flush=True)
if sys.stdin.readline() != "go\\n":
    sys.exit(1)
now = time.monotonic_ns() // 1000
if kind == "cycles":
    if int(workers) in told.get("dies_at", []):
        sys.exit("error: that is too many")
    rate = told["rate"] * int(workers)
    print(json.dumps({{"cycles": rate, "open_us": 1000000, "failed": told.get("failed", 0), "p50_us": told["p50"],
                      "p99_us": 9, "max_us": 9}}))
else:
    step = told["hold_us"]
    turns = [[now + i * step, now + i * step + 10, now + i * step + 10 + told["has_us"]] for i in range(4)]
    print(json.dumps({{"workers": [turns] + [[[now, now + 10 ** 9]]] * (int(workers) - 1)}}))
'''


def make_peer(directory, name, told, **more):
    (directory / name).mkdir()
    (directory / name / "peer.py").write_text(PROGRAM.format(told=json.dumps(told)), encoding="utf-8")
    said = {"what": f"made up {name}", "processes": False, "start": [sys.executable, "peer.py"], "warm_s": 0, **more}
    (directory / name / "peer.json").write_text(json.dumps(said), encoding="utf-8")


def run(source, peers, builds, *arguments):
    command = [sys.executable, str(source / "bench/peers/run"), "--peers-from", str(peers), "--builds", str(builds),
               "--nodes", "redis://127.0.0.1:1", "--seconds", "0.05", "--pairs", "2", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def check(condition, what, done):
    if not condition:
        sys.exit(f"{what}\n--- status {done.returncode}, standard output:\n{done.stdout}--- standard error:\n{done.stderr}")


def row_of(done, name):
    return next((line.split() for line in done.stdout.splitlines() if line.split()[:2] == [name, "1.2"]), [])


def make_all(peers):
    good = {"rate": 100, "p50": 200, "hold_us": 2000, "has_us": 1000}
    make_peer(peers, "redlock", good)
    make_peer(peers, "half", {**good, "rate": 50, "p50": 400, "failed": 3})
    make_peer(peers, "single", good, in_flight=False)
    make_peer(peers, "crowded", {**good, "dies_at": [256]})
    make_peer(peers, "loose", {**good, "has_us": 3000})
    make_peer(peers, "absent", good, needs=["no-such-package-manager"])
    make_peer(peers, "broken", good, install=[["sh", "-c", "echo error: the registry is away; exit 3"]])
    make_peer(peers, "mute", {"mute": "error: no shared library"})


def check_table(done):
    check(done.returncode == 0, "a run with some that are skipped ends well", done)
    check(row_of(done, "redlock")[2:8] == ["200", "-", "6400", "-", "25600", "-"], "redlock's own figures", done)
    check(row_of(done, "half")[2:8] == ["400", "2.00x", "3200", "0.50x", "12800", "0.50x"], "ratios to redlock", done)
    check(row_of(done, "single")[2:8] == ["200", "1.00x", "-", "-", "-", "-"], "one that has none in flight", done)
    check(row_of(done, "crowded")[4:8] == ["6400", "1.00x", "failed", "-"], "one that fails at 256", done)
    check(row_of(done, "half")[-3:] == ["0", "to", "4"], "fewest and most turns", done)
    check(row_of(done, "half")[8:10] == ["80", "1.00x"], "4 holds in 50 ms", done)
    waits = [float(cell) for cell in row_of(done, "half")[10:13]]
    check(all(25 < wait <= 50 for wait in waits), "the other 31 wait in vain, until the end, and count", done)


def check_words(done):
    for words in ["crowded, 256 in flight: no result: error: that is too many",
                  "half, one at a time: 6 tries failed",
                  "loose, 32 in line: two held the lock at the same time, 6 times",
                  "absent: skipped: needs no-such-package-manager, which is not on the PATH",
                  "broken: skipped: cannot be installed: sh exits 3: error: the registry is away",
                  "mute: skipped: does not get ready: error: no shared library",
                  "7 peers: 4 measured, 3 skipped"]:
        check(words in done.stdout, f"it does not say: {words}", done)


def check_json(done, file):
    told = json.loads(file.read_text(encoding="utf-8"))
    peers = {peer["name"]: peer for peer in told["peers"]}
    check(sorted(peers) == sorted(["redlock", "half", "single", "crowded", "loose", "absent", "broken", "mute"]),
          f"JSON has peers {sorted(peers)}", done)
    half = peers["half"]["measures"]["flight64"]
    check(half["ratio"]["rate"] == 0.5 and len(half["runs"]) == 2 and half["redlock"][0]["rate"] == 6400,
          f"JSON says {half}", done)
    check(peers["broken"]["skipped"] and not peers["half"]["skipped"], "JSON says who was skipped", done)


def check_lost_pairs(source, directory):
    """Where redlock itself fails the pair does not count, the rest is shown all the same, and the run has not gone well."""
    peers = directory / "lost"
    peers.mkdir()
    good = {"rate": 100, "p50": 200, "hold_us": 2000, "has_us": 1000}
    make_peer(peers, "redlock", {**good, "dies_at": [64]})
    make_peer(peers, "other", good)
    done = run(source, peers, directory / "lost-builds")
    check(row_of(done, "other")[2:8] == ["200", "1.00x", "-", "-", "25600", "1.00x"], "pairs that do not count", done)
    check("redlock failed in 2 of the pairs" in done.stdout and done.returncode == 1, "redlock fails at 64", done)


def check_missing(source, directory):
    """A release build without the tests has no program of ours: nobody is installed in vain."""
    done = run(source, source / "bench/peers", directory / "missing-builds", "--redlock-build", str(directory), "redsync")
    check(done.returncode == 64 and "redlock_peer is not there" in done.stderr and "-DREDLOCK_TESTS=ON" in done.stderr and
          "installing" not in done.stderr, "our own program is missing", done)


def main():
    source = pathlib.Path(sys.argv[1])
    os.environ.pop("REDLOCK_NODES", None)
    with tempfile.TemporaryDirectory(prefix="redlock-test-peers-") as directory:
        peers, builds = pathlib.Path(directory) / "peers", pathlib.Path(directory) / "builds"
        peers.mkdir()
        make_all(peers)
        before = sorted(peers.rglob("*"))
        done = run(source, peers, builds, "--json", f"{directory}/all.json")
        check_table(done)
        check_words(done)
        check_json(done, pathlib.Path(directory) / "all.json")
        check(sorted(peers.rglob("*")) == before, "something was installed into the sources", done)
        done = run(source, peers, builds, "absent")
        check(done.returncode == 1 and "1 peer: 0 measured, 1 skipped" in done.stdout, "nobody to measure", done)
        done = run(source, peers, builds, "nobody")
        check(done.returncode == 64 and "no peer is called nobody" in done.stderr, "a peer that there is not", done)
        check_lost_pairs(source, pathlib.Path(directory))
        check_missing(source, pathlib.Path(directory))
    done = run(source, source / "bench/peers", pathlib.Path(tempfile.gettempdir()), "--list")
    check(done.returncode == 0 and "redsync" in done.stdout and "redisson" in done.stdout, "the real ones", done)
    print("the runner keeps its word")


if __name__ == "__main__":
    main()
