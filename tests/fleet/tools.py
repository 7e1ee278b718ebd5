# SPDX-License-Identifier: BSD-2-Clause
"""Kubernetes' own checkers, from the registries of their languages: installed once, in the build directory."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

PLACE = pathlib.Path(os.environ["REDLOCK_BUILD"]) / "fleet-tools"
VERSIONS = ("1.30.0", "1.37.0")  # the oldest that the manifests are for, and the newest


def program(name, package):
    """A program of a Go module."""
    if not (PLACE / name).exists():
        if not shutil.which("go"):
            pytest.skip(f"needs go, which builds {name} and is not on the PATH")
        PLACE.mkdir(exist_ok=True)
        done = subprocess.run(["go", "install", package], env={**os.environ, "GOBIN": str(PLACE)}, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"{package} cannot be built here: {done.stderr[-300:]}")
    return PLACE / name


def _whole(node, definitions):
    """The schema without references, which checkers of different drafts resolve differently."""
    if isinstance(node, list):
        return [_whole(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("$ref"), str):
        return _whole(definitions[node["$ref"].rsplit("/", 1)[1]], definitions)
    return {key: _whole(value, definitions) for key, value in node.items() if key not in ("description", "$id", "$schema")}


def schemas(kinds):
    """A directory for each version, with the schema of each kind: those of Kubernetes, from the package kubernetes-validate."""
    place = PLACE / "schemas"
    if all((place / version / f"{kind}.json").exists() for version in VERSIONS for kind in kinds):
        return place
    place.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", place, "kubernetes-validate==1.37.0"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no schemas of Kubernetes: {done.stderr[-300:]}")
    wheel, = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for version in VERSIONS:
            inside = f"kubernetes_validate/kubernetes-json-schema/v{version}-local-strict"
            definitions = json.loads(archive.read(f"{inside}/_definitions.json"))["$defs"]
            (place / version).mkdir(exist_ok=True)
            for kind in kinds:
                schema = _whole(json.loads(archive.read(f"{inside}/{kind}.json")), definitions)
                (place / version / f"{kind}.json").write_text(json.dumps(schema))
    return place
