# SPDX-License-Identifier: BSD-2-Clause
"""Exit statuses, refusals, determinism of the command line; a worker that dies is named by its seed."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sim = sys.argv[1]


def run(*arguments):
    return subprocess.run([sim, *arguments], capture_output=True, text=True, timeout=170, check=False)


def test_refusals():
    for arguments in (["--seeds", "0"], ["--seeds", "-1"], ["--seeds", "x"], ["--seeds", "1", "--seed", "1"],
                      ["--seeds", "1", "--trace"], ["--seeds", "1", "--jobs", "0"], ["--seeds", "1", "--jobs", "65"],
                      ["--seeds", "1", "--break", "everything"], ["--seeds", "1", "--mode", "native", "--break", "clock-step"],
                      ["--seeds", "1", "--mode", "guarded", "--break", "mixed-config"],
                      ["--seeds", "1", "--mode", "nonsense"], ["--seeds", "1", "extra"], ["--seed", "1", "--hash"],
                      ["--seed", "1", "--coverage"], ["--seed", "1", "--steps"], ["--seeds", "1", "--hash", "--steps"],
                      ["--seed", "1", "--only", "1,"], ["--seed", "1", "--only", "5-3"], ["--seed", "1", "--only", "9999"],
                      ["--seeds"], ["--nonsense"]):
        done = run(*arguments)
        assert done.returncode == 64, (arguments, done)
        assert done.stderr and not done.stdout.startswith("1 seeds"), (arguments, done)


def test_same_result_whatever_the_jobs():
    outputs = {run("--seeds", "400", "--break", "data-loss", "--jobs", jobs).stdout.split("\n", 1)[1] for jobs in "123"}
    assert len(outputs) == 1, outputs


def test_same_trace_twice():
    first, second = (run("--seed", "11", "--trace") for _ in range(2))
    assert first.returncode == 0 and first.stdout == second.stdout
    assert first.stdout.count("\n") > 500
    assert run("--seed", "12", "--trace").stdout != first.stdout


def test_summary():
    done = run("--seeds", "50", "--start", "1000", "--jobs", "2")
    assert done.returncode == 0 and done.stderr == ""
    assert re.fullmatch(r"50 seeds from 1000 \(classic, broken: nothing\): \d+ s simulated in \d+\.\d{3} s \(\d+ times real time, "
                        r"\d+ seeds a second\), \d+ acquisitions, \d+ requests\n", done.stdout), done.stdout
    assert run("--seeds", "50", "-q").stdout == ""


def test_coverage():
    """More seeds reach more, each state is in at least one pair, and the number of workers does not matter."""
    def reached(*options):
        out = run("--coverage", "--mode", "guarded", "--stock", *options).stdout
        return [int(number) for number in re.search(r"^reached (\d+) states .*, (\d+) pairs ", out, re.M).groups()]

    few, more, biased = reached("--seeds", "20"), reached("--seeds", "40"), reached("--seeds", "20", "--biased")
    assert 0 < few[0] < more[0] and few[0] < few[1] < more[1], (few, more)
    assert biased != few and reached("--seeds", "20", "--jobs", "1") == few == reached("--seeds", "20", "--jobs", "3")
    assert "(guarded, biased, broken: nothing)" in run("--seeds", "3", "--mode", "guarded", "--biased").stdout


def test_native_nodes():
    """Which nodes are native is drawn in guarded mode alone, or asked for; the summary and the seed name it."""
    done = run("--seeds", "3", "--mode", "native", "--jobs", "1")
    assert done.returncode == 0 and "(guarded, native nodes, broken: nothing)" in done.stdout, done
    for seed in range(1, 5):
        options = ["--seed", str(seed), "--mode", "guarded"]
        native, stock = run(*options, "--native").stdout, run(*options, "--stock").stdout
        nodes = int(re.search(r": nodes (\d+),", native).group(1))
        assert f"  nodes {' '.join(str(i + 1) for i in range(nodes))} are native\n" in native, native
        assert "native" not in stock, stock
        assert run(*options).stdout in {native, stock, run(*options, "--mixed").stdout}
    assert "native" not in run("--seed", "1").stdout


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_dead_worker():
    parent = subprocess.Popen([sim, "--seeds", "4000000000", "--jobs", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
    deadline = time.monotonic() + 20
    while len(children(parent.pid)) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(children(parent.pid)[0], signal.SIGKILL)
    # The other stops at the seed that the dead one was at.
    stdout, stderr = parent.communicate(timeout=60)
    assert parent.returncode == 3, (parent.returncode, stdout, stderr)
    assert re.search(r"a worker died \(signal 9\) on seed \d+", stderr), stderr
    assert re.search(r"redlock sim --seed \d+ --trace", stderr), stderr


for name, test in sorted(globals().items()):
    if name.startswith("test_"):
        test()
        print(name)
