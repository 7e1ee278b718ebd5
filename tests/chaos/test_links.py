# SPDX-License-Identifier: BSD-2-Clause
"""test_links.py PROGRAM: each thing that a link can do is seen at a server that sends back what it gets."""
import socket
import subprocess
import sys
import threading
import time
import types
import unittest

from machines import Links

PROGRAM = sys.argv.pop(1) if len(sys.argv) > 1 else ""


def echo_server():
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection):
        try:
            while data := connection.recv(4096):
                connection.sendall(data)
        except OSError:
            pass
        connection.close()

    def accept():
        try:
            while True:
                threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()
        except OSError:
            pass
    threading.Thread(target=accept, daemon=True).start()
    return listener


class LinksTest(unittest.TestCase):
    def setUp(self):
        self.server = echo_server()
        self.links = Links(PROGRAM, subprocess.DEVNULL)
        self.node = types.SimpleNamespace(number=0, port=self.server.getsockname()[1])
        self.port = self.links.open(0, self.node)
        self.client = self.connected()

    def tearDown(self):
        self.client.close()
        self.server.close()
        self.assertEqual(self.links.close(), 0)

    def connected(self):
        client = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return client

    def answer(self, seconds=5, client=None):
        """None: none in time."""
        client = client or self.client
        client.settimeout(seconds)
        try:
            return client.recv(1 << 20)
        except TimeoutError:
            return None

    def asked(self, client=None):
        (client or self.client).sendall(b"x")
        return self.answer(client=client)

    def test_passes(self):
        sent, got = bytes(range(256)) * 4096, b""
        threading.Thread(target=self.client.sendall, args=(sent,)).start()
        while len(got) < len(sent):
            got += self.answer()
        self.assertEqual(got, sent)

    def test_late(self):
        self.links.tell([(0, 0)], "late", 30000, 40000, 0)
        self.asked()  # which may be before the command
        began = time.monotonic()
        self.assertEqual(self.asked(), b"x")
        self.assertGreaterEqual(time.monotonic() - began, 0.07)

    def test_hold(self):
        for which in (1, 2, 3):
            self.assertEqual(self.asked(), b"x")
            self.links.tell([(0, 0)], "hold", which)
            time.sleep(0.1)
            self.client.sendall(b"y")
            self.assertIsNone(self.answer(0.2))
            self.links.tell([(0, 0)], "hold", 0)
            self.assertEqual(self.answer(), b"y")

    def test_reset(self):
        self.assertEqual(self.asked(), b"x")
        self.links.tell([(0, 0)], "reset", 100)
        with self.assertRaises(ConnectionResetError):
            self.answer()

    def test_refuse(self):
        self.assertEqual(self.asked(), b"x")
        self.links.tell([(0, 0)], "refuse", 1)
        time.sleep(0.1)
        with self.assertRaises(OSError):
            client = self.connected()
            client.sendall(b"x")
            if self.answer(client=client) == b"":
                raise ConnectionResetError
        self.assertEqual(self.asked(), b"x", "connections that are there stay")

    def test_move(self):
        """New connections lead elsewhere, and old ones stay: never to another server behind a client's back."""
        self.assertEqual(self.asked(), b"x")
        with echo_server() as other:
            self.links.tell([(0, 0)], "move", other.getsockname()[1])
            time.sleep(0.1)
            self.server.close()
            with self.connected() as client:
                self.assertEqual(self.asked(client), b"x")
            self.assertEqual(self.asked(), b"x")

    def test_each_client_has_its_own(self):
        other = self.links.open(1, self.node)
        self.links.tell([(0, 0)], "hold", 3)
        with socket.create_connection(("127.0.0.1", other), timeout=5) as client:
            self.assertEqual(self.asked(client), b"x")
        self.client.sendall(b"x")
        self.assertIsNone(self.answer(0.2))


if __name__ == "__main__":
    unittest.main()
