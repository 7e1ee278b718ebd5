# SPDX-License-Identifier: BSD-2-Clause
"""Bad input: a message that names the problem and the cure, and exit 64 or 78."""
import pytest

from servers import Quorum, Server

NODES = "redis://127.0.0.1:1"
USAGE, CONFIG, NO_QUORUM = 64, 78, 69

BAD_COMMAND_LINES = [
    ([], "no command"),
    (["rnu"], "did you mean 'run'"),
    (["-t", "5s", "run", "x", "true"], "option '-t' is unknown, or stands after the command, as in 'redlock run -t'"),
    (["--nodez", "redis://a", "run"], "did you mean '--nodes'"),
    (["-N"], "option '-N' of 'redlock COMMAND' needs a value"),
    (["-q", "-N", "redis://a"], "no command after the options"),
    (["-N", "redis://a", "rnu"], "did you mean 'run'"),
    (["show", "--watch", "1s", "x"], "'1s' after --watch looks like its value: write --watch=1s, or put an operand of that name before --watch"),
    (["show", "x", "--watch", "500ms"], "write --watch=500ms"),
    (["doctor", "--watch", "5"], "write --watch=5,"),
    (["quorum", "status", "--wait", "30m"], "write --wait=30m"),
    (["show", "--config", ""], "'' names no file"),
    (["frobnicate"], "unknown command 'frobnicate'; try 'redlock help'"),
    (["surgeon"], "unknown command"),
    (["list"], "'redlock show' lists the locks"),
    (["status"], "'redlock quorum status' shows the members"),
    (["unlock", "x"], "'redlock release' does that"),
    (["completion"], "/bash-completion/completions/redlock"),
    (["sim", "RESTART"], "the nearest: RESTART-EMPTY, RESTART-JUMP"),
    (["run", "-c", "true", "x", "true"], "one line after -c, and no other command"),
    (["run", "x", "-c"], "one line after -c"),
    (["run", "x", "-c", "echo", "hi"], "quote it, as in -c 'echo hi && date'"),
    (["acquire", "--profile", "two words", "x"], "'two words' is not the name of a profile"),
    (["run"], "needs a resource"),
    (["run", "x"], "needs a command"),
    (["run", "x", "--"], "needs a command"),
    (["run", "x", "--ttl", "5s", "true"], "'--ttl' stands after RESOURCE 'x': options come before it, and '--' before a COMMAND"),
    (["elect", "x", "--id", "me", "--", "true"], "'--id' stands after NAME 'x': options come before it"),
    (["elect", "x"], "redlock elect needs a command after NAME 'x'"),
    (["gate", "file", "--fence", "5", "--", "true"], "'--fence' stands after FILE 'file'"),
    (["run", "--", "echo", "hi"], "'echo' was taken as RESOURCE, because it follows '--': redlock run RESOURCE -- COMMAND"),
    (["run", "-q", "--", "echo"], "'echo' was taken as RESOURCE"),
    (["elect", "--", "echo", "hi"], "'echo' was taken as NAME"),
    (["run", "--tll", "5s", "x", "true"], "did you mean '--ttl'"),
    (["acquire", "-Z", "x"], "unknown option '-Z'"),
    (["acquire", "--ttl"], "needs a value"),
    (["acquire", "-t"], "option '-t' of 'redlock acquire' needs a value"),
    (["acquire", "--quiet=1", "x"], "takes no value"),
    (["quorum", "status", "--ttl", "4s"], "unknown option '--ttl' of 'redlock quorum'"),
    (["quorum", "status", "--ttl=4s"], "unknown option '--ttl=4s' of 'redlock quorum'"),
    (["quorum", "init", "--ttl"], "unknown option '--ttl' of 'redlock quorum'"),
    (["quorum", "init", "--ttl-m"], "option '--ttl-m' of 'redlock quorum' needs a value"),
    (["acquire"], "needs a resource"),
    (["acquire", "x", "y"], "takes one resource"),
    (["acquire", "--count", "3", "x"], "unknown option '--count'"),
    (["acquire", "-t", "0", "x"], "'0' is out of range: a TTL is from 10ms to 24h"),
    (["acquire", "-t", "9ms", "x"], "out of range"),
    (["acquire", "-t", "25h", "x"], "out of range"),
    (["acquire", "-t", "-5", "x"], "'-5' is negative"),
    (["acquire", "-t", "10 parsecs", "x"], "'10 parsecs' has an unknown unit; write a duration as 500ms, 30s"),
    (["acquire", "-t", "soon", "x"], "'soon' is not a duration"),
    (["acquire", "-t", "", "x"], "'' is not a duration"),
    (["acquire", "-t", ".", "x"], "'.' is not a duration"),
    (["acquire", "-t", "1e3", "x"], "unknown unit"),
    (["acquire", "-t", "99999999999999999999h", "x"], "is too long"),
    (["acquire", "-w", "9223372036854775807", "x"], "is too long"),
    (["acquire", "--retry-delay", "50ms", "x"], "not a range of durations"),
    (["acquire", "--retry-delay", "250ms-50ms", "x"], "the lesser first"),
    (["acquire", "-E", "256", "x"], "not a number from 0 to 255"),
    (["acquire", "-E", "7x", "x"], "not a number from 0 to 255"),
    (["acquire", "-E", "+7", "x"], "'+7' is not a number from 0 to 255"),
    (["acquire", "-E", " 7", "x"], "' 7' is not a number from 0 to 255"),
    (["acquire", "-E", "", "x"], "'' is not a number from 0 to 255"),
    (["acquire", "-t", "+5s", "x"], "'+5s' is not a duration"),
    (["acquire", "-t", " 5s", "x"], "' 5s' is not a duration"),
    (["serve", "--socket-mode", "+600"], "'+600' is not a file mode"),
    (["acquire", "-o", "o" * 129, "x"], "at most 128 bytes"),
    (["acquire", ""], "the resource is empty"),
    (["acquire", "r" * 65537], "at most 65536"),
    (["acquire", "-p", "prefix", "r" * 65531], "65537 bytes with its prefix"),
    (["run", "", "true"], "the resource is empty"),
    (["acquire", "--mode", "strict", "x"], "not auto, single, classic or guarded"),
    (["acquire", "--quorum", "nightly", "x"], "'nightly' is not an id of a quorum (16 hexadecimal digits)"),
    (["show", "--mode", "classic", "--quorum", "0123456789abcdef", "x"], "--quorum needs guarded mode"),
    (["doctor", "--allow-replicas"], "--allow-replicas needs guarded mode"),
    (["gate", "--quorum", "0123456789abcdef", "file", "true"], "unknown option '--quorum'"),
    (["run", "--on-lost", "panic", "x", "true"], "neither term nor ignore"),
    (["release", "x"], "no token; put it in REDLOCK_TOKEN"),
    (["release", "--token", "", "x"], "token given by --token is empty"),
    (["release", "x", "-"], "token on standard input is empty"),
    (["extend", "--token", "t" * 1025, "x"], "longer than 1024 bytes"),
    (["up", "-n", "16"], "not a number from 1 to 15"),
    (["up", "-n", "0"], "not a number from 1 to 15"),
    (["up", "--server"], "needs a value"),
    (["help", "quorum", "ad"], "redlock quorum has no command 'ad'; did you mean 'add'?"),
    (["help", "quorum", "surgeon"], "redlock quorum has no command 'surgeon'; try 'redlock help quorum'"),
]


@pytest.mark.parametrize("arguments, message", BAD_COMMAND_LINES, ids=lambda value: str(value)[:60])
def test_bad_command_line(redlock, arguments, message):
    done = redlock(*arguments, environ={"REDLOCK_NODES": NODES})
    assert message in done.stderr.decode()
    assert (done.returncode, done.stdout) == (USAGE, b"")


BAD_NODES = [
    ("", "no nodes."),
    (",".join(f"redis://127.0.0.1:{port}" for port in range(1, 17)), "16"),
    ("redis://127.0.0.1:1,redis://127.0.0.1:1", "127.0.0.1:1"),
    ("redis://127.0.0.1:notaport", "not a URL"),
    ("redis://127.0.0.1:99999", "the port must be a number"),
    ("redis://::1:6379", "an IPv6 address is written in brackets, as in redis://[::1]:6379"),
    ("127.0.0.1:6379", "127.0.0.1:6379"),
    ("http://127.0.0.1:1", "http"),
    ("redis://", "redis://"),
]


@pytest.mark.parametrize("nodes, message", BAD_NODES)
@pytest.mark.parametrize("by_option", [True, False], ids=["-N", "REDLOCK_NODES"])
def test_bad_nodes(redlock, nodes, message, by_option):
    if by_option and nodes:
        done = redlock("acquire", "-N", nodes, "x")
    else:
        done = redlock("acquire", "x", environ={"REDLOCK_NODES": nodes})
    assert message in done.stderr.decode()
    assert (done.returncode, done.stdout) == (CONFIG, b"")


def test_no_nodes_names_the_four_ways_and_up(redlock):
    text = redlock("acquire", "x").stderr.decode()
    for way in ("-N", "REDLOCK_NODES", "REDLOCK_CONFIG", "/etc/redlock.conf", "redlock up"):
        assert way in text


def test_a_password_in_a_bad_url_is_not_reported(redlock):
    for nodes in ("redis://:geheim@127.0.0.1:notaport", "redis://u:geheim@h:1,redis://u:geheim@h:1"):
        done = redlock("acquire", "-N", nodes, "x")
        assert done.returncode == CONFIG
        assert b"geheim" not in done.stderr + done.stdout


def test_one_server_under_two_names(redlock):
    with Quorum(2) as servers:
        port = servers[0].port
        done = redlock("acquire", "--node-timeout", "5s", "-N", f"redis://127.0.0.1:{port},redis://localhost:{port},{servers[1].url}", "x")
        assert "listed twice" in done.stderr.decode()
        assert f":{port}" in done.stderr.decode()
        assert done.returncode == CONFIG
        assert servers.values("x") == [None, None]


def test_unreadable_tls_file(redlock):
    for options in (["--tls-ca-file", "/does/not/exist.pem"],
                    ["--tls-cert-file", "/does/not/exist.pem", "--tls-key-file", "/does/not/exist.pem"]):
        done = redlock("acquire", "-N", "rediss://127.0.0.1:1", *options, "x")
        assert "/does/not/exist.pem" in done.stderr.decode()
        assert done.returncode == CONFIG


@pytest.mark.parametrize("given, lacks", [("cert", "key"), ("key", "cert")])
def test_half_of_a_client_certificate(redlock, given, lacks):
    done = redlock("acquire", "-N", "rediss://127.0.0.1:1", f"--tls-{given}-file", "x.pem", "x")
    assert (done.returncode, done.stderr.decode()) == (
        CONFIG, f"redlock: a client certificate needs --tls-cert-file and --tls-key-file: give --tls-{lacks}-file, too\n")


def test_wrong_password_names_the_node_not_the_password(redlock):
    server = Server("--requirepass", "richtig")
    try:
        url = f"redis://:geheim@127.0.0.1:{server.port}"
        for arguments in (["acquire", "x"], ["run", "x", "true"], ["run", "-q", "x", "true"], ["acquire", "-w", "20s", "x"]):
            done = redlock(*arguments, environ={"REDLOCK_NODES": url}, timeout=10)
            assert f"127.0.0.1:{server.port}" in done.stderr.decode()
            assert "password" in done.stderr.decode()
            assert b"geheim" not in done.stderr
            assert done.returncode == CONFIG
    finally:
        server.close()


def test_unreachable_nodes_are_named(redlock):
    done = redlock("acquire", "-N", "redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3", "x")
    assert done.returncode == NO_QUORUM
    for port in (1, 2, 3):
        assert f"  redis://127.0.0.1:{port}: cannot connect: Connection refused\n" in done.stderr.decode()
    assert b"Connection refused" in redlock("acquire", "-q", "-N", NODES, "x").stderr


@pytest.mark.parametrize("arguments", [["help"], ["--help"], ["-h"], ["version"], ["--version"], ["run", "--help"], ["help", "up"]])
def test_help_and_version_exit_0(redlock, arguments):
    done = redlock(*arguments, environ={"REDLOCK_CONFIG": "/does/not/exist"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout


def verbs_of_quorum(redlock):
    """{name: operands} of the synopsis."""
    usage = redlock("quorum", "--help").stdout.decode().splitlines()[0]
    return {words[0]: words[1:] for words in map(str.split, usage.split("[options] ")[1].split(" | "))}


def test_help_of_each_verb_of_quorum(redlock):
    verbs = verbs_of_quorum(redlock)
    assert len(verbs) >= 5
    whole = redlock("help", "quorum").stdout.decode()
    for verb, operands in verbs.items():
        shown = redlock("help", "quorum", verb)
        first = shown.stdout.decode().splitlines()[0]
        assert (shown.returncode, first) == (0, " ".join(["usage: redlock quorum", verb, "[options]", *operands]))
        assert redlock("quorum", verb, "--help").stdout == shown.stdout
        assert f"\n  {' '.join([verb, *operands])} " in whole
        for other in set(verbs) - {verb}:
            assert f" {other}:" not in shown.stdout.decode(), "an option of another verb"
    assert b"--never-used" in redlock("help", "quorum", "init").stdout
    assert b"--never-used" not in redlock("help", "quorum", "add").stdout
    assert b"--wait" in redlock("help", "quorum", "status").stdout
    assert b"--wait" not in redlock("help", "quorum", "init").stdout
    assert b"--quorum" in redlock("help", "quorum", "add").stdout  # whose help begins with "guarded:"


def test_output_that_cannot_be_written_is_an_error(redlock):
    with open("/dev/full", "wb") as full:
        import subprocess

        from conftest import BINARY
        done = subprocess.run([BINARY, "help"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 71
    assert b"cannot write" in done.stderr
