# SPDX-License-Identifier: BSD-2-Clause
"""Every sampled test runs once in as many shares as its label says. usage: rotation.py SOURCE_DIR BUILD_DIR"""
import json
import pathlib
import re
import subprocess
import sys

source, build = map(pathlib.Path, sys.argv[1:])
listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True, text=True).stdout
shares_of = {}
for test in json.loads(listed)["tests"]:
    for label in next((p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"), []):
        if label.startswith("one-in-"):
            shares_of[test["name"]] = int(label[len("one-in-"):])
assert len(shares_of) >= 50, f"only {len(shares_of)} tests are sampled"

for first in (0, 1234567):
    runs = dict.fromkeys(shares_of, 0)
    for number in range(first, first + max(shares_of.values())):
        left_out = subprocess.run([source / "scripts/rotation", str(number)], input=listed, check=True, capture_output=True,
                                  text=True).stdout.strip()
        for name in runs:
            runs[name] += not re.match(left_out, name)
    wrong = {name: count for name, count in runs.items() if count != max(shares_of.values()) // shares_of[name]}
    assert not wrong, f"from share {first} on, these run so many times: {wrong}"

# A level as a family: for scripts/test-servers.
whole = {test["name"] for test in json.loads(listed)["tests"] if test["name"].startswith("cli.") and test["name"] not in shares_of}
assert len(whole) >= 10
runs = dict.fromkeys(whole, 0)
for number in range(3):
    left_out = subprocess.run([source / "scripts/rotation", str(number), "cli=3"], input=listed, check=True, capture_output=True,
                              text=True).stdout.strip()
    for name in runs:
        runs[name] += not re.match(left_out, name)
assert set(runs.values()) == {1}, runs
print(f"{len(shares_of)} sampled tests")
