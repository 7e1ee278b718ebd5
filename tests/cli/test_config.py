# SPDX-License-Identifier: BSD-2-Clause
"""The configuration file, and which of the places wins."""
import json

import pytest

from conftest import BINARY
from servers import Server

CONFIG = 78
BAD_FILES = [
    ("nodez = redis://a", "1: unknown key 'nodez'; did you mean 'nodes'?"),
    ("# comment\n\nkill_after = 5s\n", "3: unknown key 'kill_after'; did you mean 'kill-after'?"),
    ("colour = green\n", "1: unknown key 'colour'; redlock.conf(5) lists the keys"),
    ("token = secret\n", "1: unknown key 'token'"),
    ("ttl = 10 parsecs\n", "1: ttl: '10 parsecs' has an unknown unit"),
    ("ttl = 5s\nttl =\n", "2: 'ttl' has no value"),
    ("ttl = 5s\nwhat is this\n", "2: not a `name = value` line"),
    ("[two words]\nttl = 5s\n", "1: section [two words]: the name of a profile has at most 40 letters"),
    ("ttl = 5s\n[]\n", "2: section []: the name of a profile"),
    ("  [ x ]\nttl = 5s\n", "1: section [ x ]: the name of a profile"),
    ("[" + "x" * 41 + "]\n", "1: section [xxxx"),
    ("[prod]\nnodez = redis://a\n", "2: unknown key 'nodez'; did you mean 'nodes'?"),
    ("[prod]\n\nttl = 10 parsecs\n", "3: ttl: '10 parsecs' has an unknown unit"),
    ("scripts = all\n", "1: scripts: 'all' is not confined, unconfined or known"),
    ("busy-poll = perhaps\n", "1: busy-poll: 'perhaps' is neither yes nor no"),
    ("on-lost = maybe\n", "1: on-lost: 'maybe' is neither term nor ignore"),
    ("mode = strict\n", "1: mode: 'strict' is not auto, single, classic or guarded"),
    ("quorum = 12\n", "1: quorum: '12' is not an id of a quorum (16 hexadecimal digits)"),
    ("allow-replicas = 1\n", "1: allow-replicas: '1' is neither yes nor no"),
    ("ttl-max = 5ms\n", "1: ttl-max: '5ms' is out of range"),
    ("ttl = 5s\n[prod\n", "2: '[' without ']'"),
    ("[prod]x\n", "1: a profile's line ends with ']'"),
    ("[prod] = x\n", "1: a profile's line ends with ']'"),
    ("ttl = 5s\nnodes = " + "r" * 65529, "2: line longer than 65536 bytes"),
    ("ttl = 5s\nnodes = " + "r" * 65529 + "\n", "2: line longer than 65536 bytes"),
    ("owner = \"job\n", "1: 'owner': a quote must enclose the whole value"),
    ("owner = \"job\" 3\n", "1: 'owner': a quote must enclose the whole value"),
    ("owner = 'a'b'\n", "1: 'owner': a quote must enclose the whole value"),
    ("# text\nttl = 5s\0 or not\n", "2: a NUL byte: this is not a text file"),
    ("#" + "x" * 150 + "\0" + "x" * 150 + "\nttl = 5\n", "1: a NUL byte"),
]


@pytest.mark.parametrize("text, message", BAD_FILES)
def test_bad_file(redlock, tmp_path, text, message):
    path = tmp_path / "redlock.conf"
    path.write_text(text)
    done = redlock("acquire", "x", environ={"REDLOCK_CONFIG": str(path), "REDLOCK_NODES": "redis://127.0.0.1:1"})
    assert f"{path}:{message}" in done.stderr.decode()
    assert done.returncode == CONFIG


def test_long_lines(redlock, quorum, resource, tmp_path):
    """A password may be long, and so may a comment."""
    path = tmp_path / "redlock.conf"
    path.write_text(f"#{'x' * 65535}\nowner = long{' ' * 65524}\nnodes = {quorum.nodes}\n")
    done = redlock("acquire", "--json", resource, environ={"REDLOCK_CONFIG": str(path)})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["token"].endswith(":long")


@pytest.mark.parametrize("text, ttl_ms", [
    ("\ufeffttl = 7s\n", 7000), ("ttl: 7s ; a comment\n", 7000), ("ttl=7s\r\n", 7000), ("  ttl = 7s", 7000),
    ("; ttl = 7s\n", 30000), ("prefix = a;b\n", 30000), ("[other] ; text\nttl = 7s\n", 30000),
])
def test_forms_of_a_line(redlock, quorum, resource, tmp_path, text, ttl_ms):
    path = tmp_path / "redlock.conf"
    path.write_bytes(text.encode())
    done = redlock("acquire", "--json", "-N", quorum.nodes, resource, environ={"REDLOCK_CONFIG": str(path)})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ttl_ms"] == ttl_ms
    assert not text.startswith("prefix") or quorum.holder(f"a;b{resource}")


def test_a_named_file_must_be_there(redlock):
    done = redlock("acquire", "x", environ={"REDLOCK_CONFIG": "/does/not/exist"})
    assert "cannot read the configuration file /does/not/exist" in done.stderr.decode()
    assert done.returncode == CONFIG


def test_usage_is_reported_before_the_file(redlock):
    assert redlock("acquire", "--bad", "x", environ={"REDLOCK_CONFIG": "/does/not/exist"}).returncode == 64


@pytest.mark.parametrize("layout", ["one line each", "indented list"])
def test_nodes_and_defaults_of_the_file(redlock, quorum, resource, tmp_path, layout):
    path = tmp_path / "redlock.conf"
    urls = [server.url for server in quorum.servers]
    if layout == "indented list":
        nodes = "nodes =\n" + "".join(f"  {url}\n" for url in urls)
    else:
        nodes = "".join(f"nodes = {url}\n" for url in urls)
    path.write_text(f"# ours\n{nodes}ttl = 20s\nprefix = lock:\nowner = file\n")
    done = redlock("acquire", "--json", resource, environ={"REDLOCK_CONFIG": str(path)})
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [node["url"] for node in result["nodes"]] == urls
    assert result["ttl_ms"] == 20000
    assert result["token"].endswith(":file")
    assert quorum.holder(f"lock:{resource}") == result["token"].encode()


@pytest.mark.parametrize("text, said", [
    ("mode = guarded\nmode = classic\n", ":2: 'mode' is set twice"),
    ("mode = classic\n[p]\nmode = guarded\nttl = 5s\nmode = classic\n", ":5: 'mode' is set twice"),
    ("[p]\nmode = guarded\n[q]\nmode = classic\n[p]\nmode = classic\n", ":5: section [p] is there twice"),
])
def test_what_is_said_twice_is_an_error(redlock, resource, tmp_path, text, said):
    """The last one would count, and it may be the weaker mode."""
    path = tmp_path / "redlock.conf"
    path.write_text(text)
    done = redlock("acquire", resource, environ={"REDLOCK_CONFIG": str(path), "REDLOCK_NODES": "redis://127.0.0.1:1"})
    assert done.returncode == 78 and f"{path}{said}" in done.stderr.decode()


def test_which_place_wins(redlock, quorum, resource, tmp_path):
    path = tmp_path / "redlock.conf"
    path.write_text("nodes = redis://127.0.0.1:1\nttl = 20s\n")
    file = {"REDLOCK_CONFIG": str(path)}
    assert redlock("acquire", resource, environ=file).returncode == 69
    environment = {**file, "REDLOCK_NODES": quorum.nodes}
    done = redlock("acquire", "--json", resource, environ=environment)
    assert json.loads(done.stdout)["ttl_ms"] == 20000  # the file's, though the nodes are not
    done = redlock("acquire", "-N", "redis://127.0.0.1:2", "-t", "7s", resource, environ=environment)
    assert done.returncode == 69
    assert "127.0.0.1:2" in done.stderr.decode()
    repeated = [word for server in quorum.servers for word in ("-N", server.url)]
    done = redlock("acquire", "--json", "-t", "7s", *repeated, resource + "2", environ=environment)
    assert json.loads(done.stdout)["ttl_ms"] == 7000
    assert len(json.loads(done.stdout)["nodes"]) == 5


# ---- profiles ----

PROFILES = """nodes = {common}
ttl = 20s
[prod]
nodes = {prod}
owner = of-prod
[test-1]
nodes =
  {test}
ttl = 5s
[empty]
"""


@pytest.fixture
def profiles(redlock, quorum, tmp_path):
    """redlock(1) with a file of profiles: each has one node of its own."""
    path = tmp_path / "redlock.conf"
    path.write_text(PROFILES.format(common=quorum[0].url, prod=quorum[1].url, test=quorum[2].url))
    redlock.environ["REDLOCK_CONFIG"] = str(path)
    return redlock


def acquired(redlock, resource, *options, environ=None):
    done = redlock("acquire", "--json", *options, resource, environ=environ)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    return [node["url"] for node in result["nodes"]], result["ttl_ms"], result["token"].partition(":")[2]


def test_a_profile_applies_over_what_all_have_in_common(profiles, quorum, resource):
    assert acquired(profiles, resource)[:2] == ([quorum[0].url], 20000)
    assert acquired(profiles, resource, "--profile", "prod") == ([quorum[1].url], 20000, "of-prod")
    assert acquired(profiles, resource, "--profile=test-1")[:2] == ([quorum[2].url], 5000)
    assert acquired(profiles, resource + "2", "--profile", "empty")[:2] == ([quorum[0].url], 20000)
    assert acquired(profiles, resource + "3", environ={"REDLOCK_PROFILE": "prod"})[0] == [quorum[1].url]
    assert acquired(profiles, resource + "4", "--profile", "test-1", environ={"REDLOCK_PROFILE": "prod"})[0] == [quorum[2].url]
    assert acquired(profiles, resource + "5", environ={"REDLOCK_PROFILE": ""})[0] == [quorum[0].url]


def test_a_profile_that_is_named_comes_before_the_environment(profiles, quorum, resource):
    environment = {"REDLOCK_NODES": quorum[3].url}
    assert acquired(profiles, resource, environ=environment)[0] == [quorum[3].url]
    assert acquired(profiles, resource + "1", environ={**environment, "REDLOCK_PROFILE": "prod"})[0] == [quorum[3].url]
    assert acquired(profiles, resource + "2", "--profile", "prod", environ=environment)[0] == [quorum[1].url]
    assert acquired(profiles, resource + "3", "--profile", "prod", "-N", quorum[4].url, environ=environment)[0] == [quorum[4].url]


def test_a_command_under_run_has_the_profile_of_its_lock(profiles, quorum, resource):
    done = profiles("run", "--profile", "prod", resource, "--", "sh", "-c", 'echo "$REDLOCK_PROFILE $REDLOCK_NODES"')
    assert done.stdout.decode() == f"prod {quorum[1].url}\n", done.stderr


def test_a_profile_that_is_not_there(profiles, redlock):
    path = profiles.environ["REDLOCK_CONFIG"]
    for options, environ in ((["--profile", "prdo"], {}), ([], {"REDLOCK_PROFILE": "prdo"})):
        done = profiles("acquire", *options, "x", environ=environ)
        assert done.returncode == CONFIG
        assert f"{path} has no profile [prdo]; it has prod, test-1, empty" in done.stderr.decode()
    assert profiles("acquire", "--profile", "two words", "x").returncode == 64
    done = redlock("acquire", "--profile", "prod", "x", environ={"REDLOCK_CONFIG": ""})
    assert done.returncode == CONFIG


def test_a_file_of_profiles_alone_asks_for_one(redlock, tmp_path):
    path = tmp_path / "redlock.conf"
    path.write_text("[prod]\nnodes = redis://127.0.0.1:1\n[test]\nnodes = redis://127.0.0.1:1\n")
    done = redlock("acquire", "x", environ={"REDLOCK_CONFIG": str(path)})
    assert done.returncode == CONFIG
    assert "the file has profiles: prod, test. Choose one with --profile or REDLOCK_PROFILE" in done.stderr.decode()


@pytest.mark.parametrize("words", [["acquire", "job"], ["extend", "job"], ["release", "job"], ["break", "--reason=x", "job"], ["wait", "job"],
                                   ["show"], ["doctor"], ["top", "--once"], ["quorum", "status"]], ids=lambda words: words[0])
@pytest.mark.parametrize("fault", ["key", "profile", "absent", "nodes"])
def test_a_refused_configuration_as_json(redlock, tmp_path, words, fault):
    path = tmp_path / "redlock.conf"
    path.write_text("nodez = redis://127.0.0.1:1\n" if fault == "key" else "")
    environ = {"REDLOCK_CONFIG": str(path / "absent") if fault == "absent" else str(path), "REDLOCK_TOKEN": "a-token"}
    done = redlock(words[0], *(["--profile", "none"] if fault == "profile" else []), "--json", *words[1:], environ=environ)
    told = json.loads(done.stdout)
    assert (done.returncode, told["result"], told["exit"]) == (78, "config", 78), done.stderr
    assert told["reason"] in done.stderr.decode() and str(path) in told["reason"] or fault == "nodes"
    expected = {"acquire": "job", "extend": "job", "release": "job", "break": "job"}.get(words[0])
    assert told.get("resource") == expected and told.get("resources") == (["job"] if words[0] == "wait" else None)


def test_a_refused_configuration_in_the_status_file(redlock, tmp_path):
    path, report = tmp_path / "redlock.conf", tmp_path / "status"
    path.write_text("nodez = redis://127.0.0.1:1\n")
    environ = {"REDLOCK_CONFIG": str(path)}
    done = redlock("run", "--json", "--status-file", str(report), "job", "true", environ=environ)
    told = json.loads(report.read_text())
    assert (done.returncode, done.stdout, told["outcome"], told["exit"]) == (78, b"", "config", 78)
    assert "nodez" in told["reason"]
    done = redlock("run", "--json", "job", "true", environ=environ)
    assert done.stdout == b"" and json.loads(done.stderr.splitlines()[-1])["outcome"] == "config"


def test_mode_single_is_for_one_node(redlock, quorum, resource, tmp_path):
    """The lock of one server, by its name; a second node in the list is a mistake."""
    one, two = quorum[0].url, f"{quorum[0].url},{quorum[1].url}"
    file = tmp_path / "redlock.conf"
    file.write_text("mode = single\n")
    for ways in ((["--mode", "single"], {}), ([], {"REDLOCK_MODE": "single"}), ([], {"REDLOCK_CONFIG": str(file)})):
        done = redlock("run", *ways[0], resource, "sh", "-c", "echo $REDLOCK_MODE", environ={"REDLOCK_NODES": one, **ways[1]})
        assert (done.returncode, done.stdout) == (0, b"classic\n"), done
        done = redlock("run", *ways[0], resource, "true", environ={"REDLOCK_NODES": two, **ways[1]})
        assert (done.returncode, done.stderr) == (
            CONFIG, b"redlock: mode single is for one node, and 2 are listed: leave one, or use --mode classic\n")
    assert b"needs guarded mode" in redlock("quorum", "--mode", "single", "init", environ={"REDLOCK_NODES": one}).stderr


@pytest.mark.parametrize("place", ["before", "after"])
def test_the_file_and_other_options_before_and_after_the_command(redlock, quorum, resource, tmp_path, place):
    """The file that an option names takes precedence over the environment, and a redlock in the job uses it, too."""
    (tmp_path / "our.conf").write_text(f"nodes = {quorum.nodes}\nmode = classic\n")
    options = ["--config", "our.conf", "-q"]
    words = [*options, "run"] if place == "before" else ["run", *options]
    wrong = {"REDLOCK_NODES": "redis://127.0.0.1:1", "REDLOCK_CONFIG": "/does/not/exist", "REDLOCK_MODE": "guarded"}
    script = 'unset REDLOCK_NODES; cd /; "$redlock" show --json "$REDLOCK_RESOURCE"'
    done = redlock(*words, resource, "--", "sh", "-c", script, environ={**wrong, "redlock": BINARY}, cwd=tmp_path)
    assert done.returncode == 0, done
    assert json.loads(done.stdout)[0]["verdict"] == "held"


def test_options_before_the_command_mean_the_same(redlock, quorum, resource):
    def shown(*words):
        done = redlock(*words)
        return done.returncode, done.stdout
    assert shown(f"--nodes={quorum.nodes}", "--json", "show", resource) == shown("show", "-N", quorum.nodes, "-j", resource)
    assert shown("-q", "--help") == shown("help") and shown("-N", quorum.nodes, "run", "--help") == shown("run", "--help")
    assert redlock("--config", "/does/not/exist", "show").stderr.startswith(b"redlock: cannot read the configuration file /does/not/exist")


@pytest.mark.parametrize("line, owner", [
    ("owner = job # of the night", "job"), ("owner = job ; of the night", "job"), ("owner = job#3", "job#3"), ("owner = \"job # 3\"", "job # 3"),
    ("owner = 'job # 3' # the third", "job # 3"), ("owner = 'it\"s'", 'it"s'), ("owner=\"job\"\t# x", "job"), ("owner = 'a ; b'", "a ; b"), ("owner = #3", None),
])
def test_comments_after_a_value_and_quotes(redlock, quorum, resource, tmp_path, line, owner):
    path = tmp_path / "redlock.conf"
    path.write_text(f"# a # b\n  # indented\nttl = 9s # short\n{line}\nnodes = '{quorum.nodes}' # the five\n")
    done = redlock("run", resource, "--", BINARY, "show", "--json", resource, environ={"REDLOCK_CONFIG": str(path)})
    if owner is None:
        assert (done.returncode, b"'owner' has no value" in done.stderr) == (CONFIG, True), done
        return
    held = json.loads(done.stdout)[0]
    assert held["owner"] == owner and 5000 < held["remaining_ms"] <= 9000


def test_a_number_sign_in_a_password(redlock, resource, tmp_path):
    """Encoded it is part of it; as it is it is refused, and never the end of the line."""
    server = Server("--requirepass", "ge#heim")
    path = tmp_path / "redlock.conf"
    try:
        for password, status in (("ge%23heim", 0), ("ge#heim", CONFIG)):
            path.write_text(f"nodes =\n  redis://:{password}@127.0.0.1:{server.port} # one\n")
            done = redlock("run", "-q", resource, "true", environ={"REDLOCK_CONFIG": str(path)})
            assert done.returncode == status and b"heim" not in done.stderr, done
    finally:
        server.close()
