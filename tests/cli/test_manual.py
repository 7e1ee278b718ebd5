# SPDX-License-Identifier: BSD-2-Clause
"""The manual, --help, the completion and the configuration keys say the same."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ["REDLOCK_SOURCE"])
PAGES = SOURCE / "docs" / "man"
COMMANDS = ["run", "acquire", "extend", "release", "show", "break", "wait", "elect", "watch", "top", "doctor", "quorum", "gate", "serve", "exporter", "up", "bench"]
OTHERS = ["sim", "help", "version"]  # sim is a program of its own, with its own --help
# mandoc takes "--" in an example for a dash, and knows no manuals that are not installed here.
JUDGED = ("verbatim \"--\"", "outdated mandoc.db", "unknown manual", "referenced manual not found")


def page_of(command):
    return next(path for path in PAGES.glob("redlock-*.1") if re.search(rf"^\.Nm redlock-{command}\b", path.read_text(), re.M))


def rendered(path):
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    text = subprocess.run(["mandoc", "-T", "utf8", "-O", "width=300", path], capture_output=True, check=True, encoding="utf-8").stdout
    return re.sub(".\x08", "", text).replace("‐", "-").replace("−", "-")


def section(text, name):
    return re.search(rf"^{name}\n(.*?)(?=^\S)", text, re.S | re.M).group(1)


def help_of(redlock, command):
    return redlock(command, "--help").stdout.decode()


def options_of(redlock, command):
    """{long name: letter or None} of --help."""
    return {name: letter or None
            for letter, name in re.findall(r"^  (?:-(.), |    )--([a-z-]+)", help_of(redlock, command), re.M)}


def tagged(text):
    """{long name: letter or None} of the options that a page explains."""
    return {name: letter or None for line in re.findall(r"^ +(-.*)", section(text, "OPTIONS"), re.M)
            for letter, name in re.findall(r"(?:^|, )(?:-(.), )?--([a-z-]+)", line)}


@pytest.mark.parametrize("page", sorted(PAGES.iterdir()), ids=lambda page: page.name)
def test_page_is_well_formed(page):
    if shutil.which("mandoc") is None:
        pytest.skip("mandoc is not installed")
    lint = subprocess.run(["mandoc", "-T", "lint", page], capture_output=True, text=True, check=False).stdout
    assert [line for line in lint.splitlines() if not any(judged in line for judged in JUDGED)] == []
    if shutil.which("groff") is not None:
        assert subprocess.run(["groff", "-ww", "-mdoc", "-Tutf8", page], capture_output=True, text=True, check=True).stderr == ""


def test_each_command_has_a_page():
    names = re.findall(r"^\.Nm redlock-([a-z]+)", "\n".join(path.read_text() for path in PAGES.glob("redlock-*.1")), re.M)
    assert sorted(names) == sorted([*COMMANDS, "sim"])


@pytest.mark.parametrize("command", COMMANDS)
def test_synopsis_is_that_of_help(redlock, command):
    usage = help_of(redlock, command).splitlines()[0].removeprefix("usage: ")
    synopsis = [" ".join(line.split()) for line in section(rendered(page_of(command)), "SYNOPSIS").splitlines()]
    assert usage in synopsis


@pytest.mark.parametrize("command", [*COMMANDS, "sim"])
def test_help_names_the_page(redlock, command):
    assert help_of(redlock, command).splitlines()[-1].endswith(f"The manual: man redlock-{command}")


def test_commands_are_those_of_help(redlock):
    listed = re.findall(r"^  (\w+) +(.*)", section(redlock("help").stdout.decode() + "\nend", "Commands:"), re.M)
    assert [name for name, _ in listed] == COMMANDS + OTHERS
    table = re.findall(r"^ +redlock-(\w+)\(1\) +(.*)", section(rendered(PAGES / "redlock.1"), "COMMANDS"), re.M)
    assert table == [each for each in listed if each[0] not in ("help", "version")]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_manual_and_no_other(redlock, command):
    page = page_of(command)
    text = rendered(page)
    named = set(re.findall(r"--([a-z][a-z-]+)", section(text, "OPTIONS")))
    known = options_of(redlock, command)
    of_page = {name for other in COMMANDS if page_of(other) == page for name in options_of(redlock, other)}
    assert named - of_page == set()
    # What the page names, and does not explain itself, another page explains.
    explained = tagged(rendered(PAGES / "redlock.1"))
    for other in re.findall(r"redlock-([a-z]+)\(1\)", section(text, "OPTIONS")):
        explained.update({name: letter for name, letter in tagged(rendered(page_of(other))).items() if name in named})
    explained.update({name: letter for name, letter in tagged(text).items() if name in known})
    assert {name: explained.get(name, "not explained") for name in known} == known


def test_what_redlock_1_explains_belongs_to_several_commands(redlock):
    taken = [name for page in {page_of(command) for command in COMMANDS} for name in
             {name for command in COMMANDS if page_of(command) == page for name in options_of(redlock, command)}]
    common = tagged(rendered(PAGES / "redlock.1"))
    assert len(common) > 20
    assert [name for name in common if taken.count(name) < 2] == []


def test_keys_of_the_file_are_in_the_manual(redlock, tmp_path):
    files = section(rendered(PAGES / "redlock.conf.5"), "DESCRIPTION")
    # The keys are the option names that the file accepts.
    names = {name for command in COMMANDS for name in options_of(redlock, command)}
    path = tmp_path / "redlock.conf"
    for name in sorted(names):
        path.write_text(f"{name} = \x01\n")
        message = redlock("show", "x", environ={"REDLOCK_CONFIG": str(path)}).stderr.decode()
        accepted = f"unknown key '{name}'" not in message
        listed = re.search(rf"(?<![\w-]){name}(?![\w-])", files) is not None
        # A word of the prose may be an option's name; a key must be listed.
        assert listed or not accepted, name
        assert accepted or name in ("help", "slots", "quiet", "json", "verbose", "tokens", "all", "token", "nonblock", "write-config", "force", "status-file", "leave-behind", "metrics-file", "count", "dir",
                                    "server", "native", "module", "restart-after", "samples", "watch", "fence", "confirm", "shared", "floor", "never-used",
                                    "yes", "reason", "no-syslog", "any-value", "profile", "config", "timeout", "command", "only", "list", "pairs", "seconds", "held", "ttls", "plot", "interval", "once", "id"), name


def complete(*words):
    script = (f"export PATH={shutil.os.path.dirname(os.environ['REDLOCK_BIN'])}:$PATH; source {SOURCE}/packaging/completion/redlock.bash; "
              'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _redlock; printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", *words], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_completion(redlock):
    assert complete("redlock", "r") == ["run", "release"]
    assert complete("redlock", "") == COMMANDS + OTHERS
    assert complete("redlock", "run", "--") == [f"--{name}" for name in options_of(redlock, "run")]
    assert complete("redlock", "up", "--res") == ["--restart-after"]
    assert complete("redlock", "run", "--on-lost", "") == ["term", "ignore"]
    assert complete("redlock", "serve", "--l") == ["--listen", "--lock-memory"]
    assert complete("redlock", "serve", "--busy-poll", "") == ["yes", "no"]
    assert complete("redlock", "serve", "--scripts", "") == ["confined", "unconfined", "known"]
    assert "/etc/passwd" in complete("redlock", "serve", "--password-file", "/etc/passw")
    assert complete("redlock", "run", "--mode", "g") == ["guarded"]
    assert complete("redlock", "run", "--mode", "a") == ["auto"]
    assert complete("redlock", "up", "--mode", "") == ["classic", "guarded"]
    assert complete("redlock", "bench", "--mode", "s") == ["single"]
    assert complete("redlock", "bench", "--only", "blocking,thr") == ["blocking,threads-4", "blocking,threads-16"]
    assert complete("redlock", "quorum", "re") == ["remove", "replace"]
    assert "--never-used" in complete("redlock", "quorum", "init", "--")
    assert "true" in complete("redlock", "run", "--confirm", "x", "tru")
    assert "true" in complete("redlock", "run", "-t", "5s", "x", "tru")
    assert "true" in complete("redlock", "run", "--timeout", "5s", "--profile", "prod", "x", "tru")
    assert "true" in complete("redlock", "up", "-n", "3", "--", "tru")
    assert "true" in complete("redlock", "gate", "--fence", "3", "file", "tru")
    assert "/etc/passwd" in complete("redlock", "gate", "/etc/passw")


def test_completion_passes_shellcheck():
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    done = subprocess.run(["shellcheck", SOURCE / "packaging" / "completion" / "redlock.bash"], capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_messages_name_installed_documents():
    """A user has no source tree: what a message or the manual names is installed."""
    pages = "".join(path.read_text() for path in PAGES.iterdir())
    named = set(re.findall(r"/usr/share/doc/redlock/(\S+)", pages))
    for directory in ("bench/program", "cli", "serve", "src", "top"):
        for path in (SOURCE / directory).rglob("*.c"):
            text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
            assert not re.search(r"docs/[a-z/-]+\.md", text), path
            named |= set(re.findall(r'REDLOCK_DOC\s+"/([a-z-]+\.md)', text))
    assert "docs/" not in pages
    for path in (SOURCE / "include").rglob("*.h"):
        assert "docs/" not in path.read_text(), path
        named |= set(re.findall(r"[a-z-]+\.md\b", path.read_text()))
    assert {"acl.md", "safety.md", "older-ways.md", "serve.md"} <= named
    assert named - {path.name for path in (SOURCE / "docs").glob("*/*.md")} == set()
