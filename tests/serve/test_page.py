# SPDX-License-Identifier: BSD-2-Clause
"""The page for browsers, of the exporter and of the gateway: what is on it in a real browser, and who may read it."""
import html
import http.server
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from conftest import BINARY, CLEAN, guarded
from servers import until
from test_exporter import Exporter, redlock, start_exporter, take  # noqa: F401

QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--hide-scrollbars"]


@pytest.fixture
def browse(tmp_path):
    """The document, after the scripts have run."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium (apt-get install chromium, or set CHROMIUM)")

    def run(url, *arguments):
        done = subprocess.run([program, *QUIET, f"--user-data-dir={tmp_path}/profile", "--dump-dom", "--virtual-time-budget=6000", *arguments, url],
                              capture_output=True, text=True, check=False, timeout=120)
        assert "</html>" in done.stdout, done.stderr[-1000:]
        return done.stdout
    return run


def rows(document, table):
    """The texts of its cells, row by row."""
    body = re.search(rf'<table id="{table}".*?<tbody>(.*?)</tbody>', document, re.DOTALL)[1]
    return [[html.unescape(re.sub(r"<[^>]*>", "|", cell)).strip("|") for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)]
            for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)]


def hold(servers, count, name):
    """Locks as any client takes them, by one pipeline to each server."""
    for server in servers.servers:
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as wire:
            wire.sendall(b"".join(b"SET %s %040x NX PX 600000\r\n" % (name(i).encode(), i) for i in range(count)))
            reader = wire.makefile("rb")
            assert all(reader.readline() == b"+OK\r\n" for _ in range(count))


# ---- in a browser ----

def test_nodes_locks_waiters_and_leaders(start_exporter, own_quorum, browse):  # noqa: F811
    nodes = guarded(own_quorum).nodes
    redlock(nodes, "acquire", "-t", "60s", "--owner", "batch@db7", "nightly")
    for _ in range(2):
        redlock(nodes, "acquire", "-t", "60s", "--shared", "report")
    quiet = {"env": {**CLEAN, "REDLOCK_NODES": nodes}, "start_new_session": True}
    others = [subprocess.Popen([BINARY, "run", "-t", "10s", "nightly", "true"], **quiet),
              subprocess.Popen([BINARY, "elect", "-t", "20s", "--id", "host-3", "scheduler", "sleep", "60"], **quiet)]
    own_quorum[4].ask("FLUSHALL")
    exporter = start_exporter(nodes, "--page")
    try:
        def whole():
            look = json.loads(exporter.read("/look.json"))
            by_name = {lock["resource"]: lock for lock in look["locks"]}
            return by_name.get("nightly", {}).get("waiters") == 1 and by_name.get("scheduler", {}).get("leads") and \
                look["nodes"][4]["verdict"] == "recovering"
        until(whole, seconds=20, what="the waiter, the leader and the recovery")
        document = browse(exporter.root + "/")
    finally:
        for other in others:
            other.kill()
            other.wait()
    locks = {row[0]: row for row in rows(document, "locks")}
    assert locks["nightly"][1] == "batch@db7" and re.fullmatch(r"1 \(\S+\)", locks["nightly"][5]), locks
    assert locks["scheduler|leader"][1] == "host-3"
    assert locks["report|shared"][1] == "2 readers"
    shown = rows(document, "nodes")
    assert [row[0] for row in shown] == [server.url for server in own_quorum.servers]
    assert [row[1] for row in shown[:4]] == ["votes"] * 4 and shown[4][1].startswith("no: recovering, ")
    assert re.search(r'<p id="summary"[^>]*>guarded: 4 of 5 intact, 3 needed', document)


def test_names_are_text(start_exporter, own_quorum, browse):  # noqa: F811
    """Nothing that a client can write becomes markup."""
    bad = ["<script>document.title='bad'</script>", "<img src=x onerror=\"document.title='bad'\">", "a\u202egnp.exe", "\"'&amp;</td></table>",
           "{{7*7}}${7*7}"]
    for name in bad:
        assert redlock(own_quorum.nodes, "acquire", "-t", "60s", "--owner", "<b/id=bad>x</b>", name).returncode == 0
    document = browse(start_exporter(own_quorum.nodes, "--page").root + "/")
    assert "<title>redlock</title>" in document and document.count("<script") == 1 and "<img" not in document and not re.search("<b[ />]", document)
    found = {row[0] for row in rows(document, "locks")}
    assert found == {name.replace("\u202e", "\\u{202e}") for name in bad}
    assert {row[1] for row in rows(document, "locks")} == {"<b/id=bad>x</b>"}


def test_the_gateway_has_it_too(start, quorum, browse, key):
    gateway = start(quorum.nodes, "--metrics", "127.0.0.1:0", "--page")
    with gateway.connect() as client:
        assert client("SET", key, "v" * 20, "NX", "PX", 20000) == "OK"
        host, port = gateway.address("metrics")
        assert [row[0] for row in rows(browse(f"http://{host}:{port}/"), "locks")] == [key]
        assert client("DEL", key) == 1
    assert any(line.endswith(f"page on http://{host}:{port}/") for line in gateway.said)


class Framed:
    """The exporter's page in a frame of some width, with a script beside it that may look inside: a window cannot be that narrow."""

    def __init__(self, exporter, width, script):
        outer = f"""<!DOCTYPE html><title>not run</title><body style="margin:0"><iframe id="f" src="/page" style="border:0;width:{width}px;height:800px">
</iframe><script>const wait = ms => new Promise(done => setTimeout(done, ms));
(async () => {{
  let page;
  do {{ await wait(50); page = document.getElementById("f").contentDocument; }} while (!page.documentElement.dataset.shown);
  document.title = JSON.stringify(await ({script})(page));
}})();</script>"""

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = outer.encode() if self.path == "/" else exporter.read("/" if self.path == "/page" else self.path).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json" if "json" in self.path else "text/html; charset=utf-8")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def measure(self, browse, rest=0):
        """Under load, Chromium may print the document before its time is over."""
        title = "not run"
        for _ in range(5):
            time.sleep(rest)
            title = html.unescape(re.search(r"<title>(.*?)</title>", browse(self.url))[1])
            if title != "not run":
                break
        self.server.shutdown()
        self.server.server_close()
        return json.loads(title)


def test_it_fits_a_phone(start_exporter, own_quorum, browse):  # noqa: F811
    hold(own_quorum, 30, lambda i: f"{'a-name-without-a-place-to-break-it' * 3}:{i}")
    own_quorum[0].process.kill()
    own_quorum[0].process.wait()
    script = """page => [page.documentElement.scrollWidth, [...page.querySelectorAll("body *")].filter(e => !e.closest("thead") &&
      e.getBoundingClientRect().right > 361).map(e => e.tagName), page.querySelectorAll("#locks tbody tr").length]"""
    assert Framed(start_exporter(own_quorum.nodes, "--page"), 360, script).measure(browse) == [360, [], 30]


def test_ten_thousand_locks(start_exporter, own_quorum, browse):  # noqa: F811
    hold(own_quorum, 10000, lambda i: f"job:{i:05}")
    exporter = start_exporter(own_quorum.nodes, "--page")
    until(lambda: len(json.loads(exporter.read("/look.json"))["locks"]) == 10000, seconds=60, what="all locks")
    script = """async page => {
      const table = () => [...page.querySelectorAll("#locks tbody tr")].map(row => row.cells[0].textContent);
      const found = [], at = id => page.getElementById(id), began = performance.now();
      found.push(table().length, table()[0], at("page").textContent);
      at("next").click();
      found.push(table()[0], at("page").textContent);
      at("search").value = "9999";
      at("search").dispatchEvent(new Event("input"));
      found.push(table(), at("next").disabled);
      return [found, performance.now() - began];
    }"""
    found, ms = Framed(exporter, 1200, script).measure(browse)
    assert found == [100, "job:00000", "1–100 of 10000", "job:00100", "101–200 of 10000", ["job:09999"], True]
    assert ms < 2000, ms


def test_what_is_old_says_so(start_exporter, quorum, browse):  # noqa: F811
    exporter = start_exporter(quorum.nodes, "--page")

    def age():
        return json.loads(exporter.read("/look.json"))["age_ms"]
    until(lambda: age() < 1000, what="a look of now")
    framed = Framed(exporter, 1200, 'page => [page.getElementById("time").className, page.getElementById("time").textContent]')
    kind, text = framed.measure(browse, rest=6)
    assert kind == "warn" and re.search(r", (?:[6-9]\.\d|1\ds?)s? old$", text), text
    time.sleep(6)
    assert 6000 < age() < 20000
    until(lambda: age() < 1000, what="the next look")


# ---- who may read it ----

def test_no_tokens_and_no_passwords(start_exporter, own_quorum):  # noqa: F811
    nodes = own_quorum.nodes.replace("redis://", "redis://default:s3cret@")
    token = json.loads(redlock(nodes, "acquire", "-t", "60s", "--json", "one").stdout)["token"]
    text = start_exporter(nodes, "--page").read("/look.json")
    assert '"resource":"one"' in text and "s3cret" not in text and "token" not in text
    assert token[:4] not in re.sub(r'"(time|url)":"[^"]*"', "", text), token


def status(url, host):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Host": host}), timeout=20) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_foreign_name_is_refused(start_exporter, quorum):  # noqa: F811
    """Its page could be made to stand for this address, and read what is here."""
    root = start_exporter(quorum.nodes, "--page").root
    for path in ["/", "/look.json"]:
        for host in ["evil.example", "evil.example:16390", "127.0.0.1.evil.example", "localhost.evil.example", "[evil", "127.1.evil"]:
            assert status(root + path, host) == 403, host
        for host in ["127.0.0.1:16390", "10.1.2.3", "[::1]:16390", "localhost", "LOCALHOST:1", socket.gethostname()]:
            assert status(root + path, host) == 200, host
    assert status(root + "/metrics", "exporter.example") == 200


def test_headers(start_exporter, quorum):  # noqa: F811
    root = start_exporter(quorum.nodes, "--page").root
    nonces = set()
    for _ in range(2):
        with urllib.request.urlopen(root + "/", timeout=20) as reply:
            policy, text = reply.headers["Content-Security-Policy"], reply.read().decode()
        nonce = re.search(r"script-src 'nonce-([0-9a-f]{32})'", policy)[1]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert text.count(f'nonce="{nonce}"') == 2 and "NONCE" not in text
        assert not re.search(r"""(?:src|href)=["'](?!data:,)|https?://""", text), "nothing from elsewhere"
        nonces.add(nonce)
    assert len(nonces) == 2
    with urllib.request.urlopen(root + "/look.json", timeout=20) as reply:
        assert reply.headers["Content-Type"] == "application/json" and reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Access-Control-Allow-Origin"] is None


def test_others_that_can_read_it_are_named(quorum):
    begun = Exporter(quorum.nodes, "--page")
    assert begun.close() == ""
    done = subprocess.Popen([BINARY, "exporter", "-N", quorum.nodes, "--page", "--listen", "0.0.0.0:0"], env=CLEAN, stderr=subprocess.PIPE, text=True)
    said = done.stderr.readline() + done.stderr.readline()
    done.terminate()
    done.communicate(timeout=15)
    assert "0.0.0.0:" in said and "others can reach this address, and its page shows them the names of locks" in said


def test_the_gateway_needs_an_address_for_it(quorum):
    done = subprocess.run([BINARY, "serve", "-N", quorum.nodes, "--listen", "127.0.0.1:0", "--page"], env=CLEAN, capture_output=True, text=True, timeout=30)
    assert done.returncode == 64 and "add --metrics 127.0.0.1:16391" in done.stderr, done
