# SPDX-License-Identifier: BSD-2-Clause
"""With one assumption off, the simulator finds a violation within 1000 seeds, says how to repeat it, and can."""
import re
import subprocess
import sys

sim, assumption = sys.argv[1:]
# What the published attack breaks, where more than one rule could be.
WANTED = {"pause-write": "LOST_UPDATE"}.get(assumption, "EXCLUSION")


def run(*arguments):
    return subprocess.run([sim, *arguments], capture_output=True, text=True, timeout=170, check=False)


def main():
    found = run("--seeds", "1000", "--break", assumption)
    assert found.returncode == 1, (found.returncode, found.stdout, found.stderr)
    rules = re.findall(r"^violated: (\w+): ", found.stdout, re.M)
    assert WANTED in rules, found.stdout
    seed = re.search(r"^seed (\d+): ", found.stdout, re.M).group(1)
    assert f"--seed {seed} --break {assumption} --trace" in found.stdout

    again = run("--seed", seed, "--break", assumption, "--trace")
    assert again.returncode == 1
    # With messages in the history a judge may know more, never less.
    assert set(rules) <= set(re.findall(r"^violated: (\w+): ", again.stdout, re.M)), again.stdout[-2000:]
    assert run("--seed", seed).returncode == 0, "the same seed breaks a rule with every assumption in place"

    small = run("--seed", seed, "--break", assumption, "--shrink")
    assert small.returncode == 1
    left, whole = map(int, re.search(r"^(\d+) actions of (\d+) are enough", small.stdout, re.M).groups())
    assert left < whole and left <= 12, small.stdout[:3000]
    only = re.search(r"--only (\S+) --trace", small.stdout).group(1)
    repeated = run("--seed", seed, "--break", assumption, "--only", only, "--trace")
    assert repeated.returncode == 1
    broken = re.search(r"^violated: (\w+): ", small.stdout, re.M).group(1)
    assert f"violated: {broken}" in repeated.stdout
    # Each of what is left is needed.
    actions = re.findall(r"^ +(\d+) at ", repeated.stdout, re.M)
    assert len(actions) == left
    for action in actions:
        less = ",".join(other for other in actions if other != action) or "none"
        assert f"violated: {broken}" not in run("--seed", seed, "--break", assumption, "--only", less).stdout, action
    print(f"seed {seed}: {', '.join(sorted(set(rules)))}; {left} actions of {whole}")


main()
