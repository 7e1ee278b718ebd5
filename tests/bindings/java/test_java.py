# SPDX-License-Identifier: BSD-2-Clause
"""The jar in an empty folder, on real servers: the cases of Cases.java, and the examples of its page.

REDLOCK_SOAK_S: how many seconds of random operations (4).
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile
from xml.etree import ElementTree

import pytest

SOURCE, BUILD, BINARY = (pathlib.Path(os.environ[f"REDLOCK_{name}"]) for name in ("SOURCE", "BUILD", "BIN"))
BINDING = SOURCE / "bindings" / "java"
HERE = pathlib.Path(__file__).parent
OPTIONS = ["-Xmx128m", "--enable-native-access=ALL-UNNAMED"]
ONE_CARRIER = ["-Djdk.virtualThreadScheduler.parallelism=1", "-Djdk.virtualThreadScheduler.maxPoolSize=1"]
sys.path.insert(0, str(SOURCE / "tests" / "docs"))
from documents import Document  # noqa: E402


def java_home():
    """Of the environment, of the PATH or of where distributions put it: the first with Java 22 or later."""
    on_path = shutil.which("java")
    homes = [os.environ.get("JAVA_HOME"), on_path and pathlib.Path(on_path).resolve().parent.parent,
             *sorted(pathlib.Path("/usr/lib/jvm").glob("*"))]
    for home in (pathlib.Path(home) for home in homes if home):
        release = home / "release"
        version = re.search(r'^JAVA_VERSION="(\d+)', release.read_text(encoding="utf-8"), re.MULTILINE) if release.is_file() else None
        if version and int(version[1]) >= 22 and (home / "bin/javac").is_file():
            return str(home)
    return None


HOME = java_home()
if HOME is None:
    pytest.exit("skipped: needs a JDK 22 or later, and JAVA_HOME, the PATH and /usr/lib/jvm lead to none", returncode=77)
if shutil.which("pkg-config") is None:
    pytest.exit("skipped: pkg-config is not installed", returncode=77)


def run(*words, cwd, environ, timeout=120, status=0):
    done = subprocess.run(list(map(str, words)), cwd=cwd, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False)
    assert done.returncode == status, f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout[-5000:]}"
    return done.stdout


@pytest.fixture(name="installed", scope="module")
def installed_library(tmp_path_factory):
    """The library as cmake installs it."""
    place = tmp_path_factory.mktemp("installed")
    run("cmake", "--install", BUILD, "--prefix", place, cwd=place, environ=os.environ)
    return next(place.rglob("redlock.pc")).parent.parent


@pytest.fixture(name="environ", scope="module")
def clean_environment():
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("REDLOCK_", "LD_", "PKG_CONFIG"))}
    soak = {"REDLOCK_SOAK_S": os.environ["REDLOCK_SOAK_S"]} if "REDLOCK_SOAK_S" in os.environ else {}
    return {**environ, **soak, "JAVA_HOME": HOME, "PATH": f"{HOME}/bin:{BINARY.parent}:{environ['PATH']}", "REDLOCK_CONFIG": "/dev/null"}


@pytest.fixture(name="empty", scope="module")
def empty_folder(tmp_path_factory, installed, environ):
    """With the jar, the library inside, and the cases."""
    place = tmp_path_factory.mktemp("empty")
    run(BINDING / "build", place, cwd=place,
        environ={**environ, "REDLOCK_LINK": "static", "PKG_CONFIG_PATH": str(installed / "pkgconfig")})
    version = ElementTree.parse(next(place.glob("*.pom"))).findtext("{*}version")
    (place / f"libredlock-{version}.jar").rename(place / "libredlock.jar")
    run("javac", "-Xlint:all,-try", "-Werror", "-cp", "libredlock.jar", "-d", "cases", HERE / "Cases.java", cwd=place, environ=environ)
    return place


def case(name, place, environ, *options, servers=()):
    soak = int(environ.get("REDLOCK_SOAK_S", "4"))
    said = run(*servers, "java", *OPTIONS, *options, "-cp", "libredlock.jar:cases", "Cases", name, cwd=place, environ=environ,
               timeout=soak + 120)
    assert said.endswith(f"{name}: ok\n"), said
    return said


UP = {mode: ("redlock", "up", "-q", "-n", "3", "--mode", mode, "--") for mode in ("classic", "guarded")}


@pytest.mark.parametrize("name", ["basics", "kinds", "futures", "interrupts", "starved", "mistakes", "closing", "hooked", "forgotten", "exits"])
def test_on_three_nodes(name, empty, environ):
    case(name, empty, environ, servers=UP["classic"])


@pytest.mark.parametrize("name", ["carriers", "computing"])
def test_one_carrier(name, empty, environ):
    case(name, empty, environ, *ONE_CARRIER, servers=UP["classic"])


def test_guarded(empty, environ):
    assert "an observer's" in case("guarded", empty, environ, servers=UP["guarded"])


@pytest.mark.parametrize("name", ["loss", "soak"])
def test_on_servers_of_its_own(name, empty, environ):
    case(name, empty, environ)


def test_the_library_of_the_system(empty, installed, environ):
    """By the property, by the loader, and none at all."""
    with zipfile.ZipFile(empty / "libredlock.jar") as full, zipfile.ZipFile(empty / "bare.jar", "w") as bare:
        for name in full.namelist():
            if not name.startswith("linux-"):
                bare.writestr(name, full.read(name))
    words = (*UP["classic"], "java", *OPTIONS, "-cp", "bare.jar:cases")
    library = installed / "libredlock.so.0"
    said = run(*words, f"-Dredlock.library={library}", "Cases", "basics", cwd=empty, environ=environ)
    assert said == "basics: ok\n", said
    run(*words, "Cases", "basics", cwd=empty, environ={**environ, "LD_LIBRARY_PATH": str(installed)})
    said = run(*words, "Cases", "basics", cwd=empty, environ=environ, status=1)
    assert "install libredlock0, or set -Dredlock.library=PATH" in said, said


def test_the_build_without_a_library(tmp_path, environ):
    said = run(BINDING / "build", tmp_path, cwd=tmp_path, status=1,
               environ={**environ, "REDLOCK_LINK": "static", "PKG_CONFIG_LIBDIR": "/nonexistent"})
    assert said == "bindings/java: no redlock.pc: install libredlock-dev, or set PKG_CONFIG_PATH\n", said


def test_the_page(empty, environ):
    page = Document("docs/use/java.md")
    place = empty / "page"
    place.mkdir()
    shutil.copy(empty / "libredlock.jar", place)
    (place / "Nightly.java").write_text(page.one("java", "first"), encoding="utf-8")
    said = run("sh", "-ec", page.one("sh", "try"), cwd=place, environ=environ)
    assert re.search(r"^backup with fence [1-9]\d*$", said, re.MULTILINE), said
    pieces = [block.text for block in page.of("java") if block.label != "first"]
    assert len(pieces) == 4, pieces
    (place / "Pieces.java").write_text(
        "import java.time.Duration;\nimport java.util.*;\nimport redlock.*;\n\nclass Pieces {\n"
        "    static void work(long fence) {}\n\n" + "".join(
            f"    static void piece{number}(Redlock client, LockOptions options) throws Exception {{\n{text}    }}\n\n"
            for number, text in enumerate(pieces)) + "    public static void main(String[] words) throws Exception {\n"
        "        try (var client = Redlock.open()) {\n" + "".join(
            f"            piece{number}(client, LockOptions.defaults());\n" for number in range(len(pieces))) + "        }\n    }\n}\n",
        encoding="utf-8")
    said = run(*UP["guarded"], "java", *OPTIONS, "-cp", "libredlock.jar", "Pieces.java", cwd=place, environ=environ)
    assert "host1 leads" in said, said
