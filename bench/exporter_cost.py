#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a scrape of `redlock exporter` costs it and each node. Run it by hand, inside a quorum:

    redlock up -- bench/exporter_cost.py [LOCKS [SCRAPES]]

It takes LOCKS locks (1000), scrapes SCRAPES times (20), one second apart, and prints processor time of a scrape; and what
the exporter and the nodes use while nobody scrapes."""
import concurrent.futures
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

LOCKS, SCRAPES = (int(word) for word in (sys.argv[1:] + ["1000", "20"][len(sys.argv) - 1:]))
TICK = os.sysconf("SC_CLK_TCK")


def processor(pid):
    fields = open(f"/proc/{pid}/stat", encoding="utf-8").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def listeners():
    """The processes of the nodes, by their ports."""
    ports = re.findall(r":(\d+)(?:,|$)", os.environ["REDLOCK_NODES"])
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", encoding="utf-8").read()
        except OSError:
            continue
        for port in ports:
            if re.search(rf"(redis|valkey)-server .*:{port}\b", words):
                found[int(pid)] = port
    return list(found)


def take_locks():
    """Through a gateway, by many clients at once."""
    def take(path, mine):
        with socket.socket(socket.AF_UNIX) as wire:
            while wire.connect_ex(path) != 0:
                time.sleep(0.1)
            for i in mine:
                wire.sendall(f"SET job-{i:06} {os.urandom(20).hex()} NX PX 60000\r\n".encode())
                assert wire.recv(100) == b"+OK\r\n"

    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(50) as clients:
        path = f"{directory}/gateway.sock"
        gateway = subprocess.Popen(["redlock", "serve", "-q", "--listen", f"unix://{path}"])
        list(clients.map(lambda first: take(path, range(first, LOCKS, 50)), range(50)))
        gateway.terminate()
        gateway.wait()


def scrape(address):
    return urllib.request.urlopen(f"http://{address}/metrics", timeout=30).read().decode()


def main():
    exporter = subprocess.Popen(["redlock", "exporter", "--listen", "127.0.0.1:0", "--interval", "1s"], stderr=subprocess.PIPE, text=True)
    address = re.search(r"http://(\S+)/metrics", exporter.stderr.readline())[1]
    nodes = listeners()
    take_locks()
    before = processor(exporter.pid), sum(map(processor, nodes))
    time.sleep(10)
    print(f"nobody scrapes: exporter {(processor(exporter.pid) - before[0]) / 10:.2%} of a core")
    text = scrape(address)
    held = int(re.search(r'redlock_locks{state="held"} (\d+)', text)[1])
    before = processor(exporter.pid), sum(map(processor, nodes))
    for _ in range(SCRAPES):
        time.sleep(1)
        text = scrape(address)
    exporter_ms = (processor(exporter.pid) - before[0]) / SCRAPES * 1e3
    node_ms = (sum(map(processor, nodes)) - before[1]) / SCRAPES / len(nodes) * 1e3
    print(f"{held} locks: a scrape takes {exporter_ms:.1f} ms of the exporter's processor, and {node_ms:.1f} ms of each of {len(nodes)} nodes'")
    print(f"one scrape in 15 s: exporter {exporter_ms / 150:.2f} %, each node {node_ms / 150:.2f} % of a core")
    print(re.search(r"\nredlock_exporter_look_seconds .*", text)[0].strip())
    exporter.terminate()
    exporter.wait()


main()
