# SPDX-License-Identifier: BSD-2-Clause
"""A node that answers what the test wants: for servers that are not installed here."""
import contextlib
import socket
import threading

RUN_ID = "f" * 40


def bulk(text):
    return f"${len(text)}\r\n{text}\r\n".encode()


def old_redis(version, run_id=RUN_ID):
    """The answers of a Redis of that version to a handshake."""
    info = f"redis_version:{version}\r\nredis_mode:standalone\r\nrun_id:{run_id}\r\n"

    def answer(words):
        name = words[0].upper()
        if name == "HELLO":
            return b"%2\r\n" + bulk("server") + bulk("redis") + bulk("proto") + b":3\r\n"
        if name == "INFO":
            return bulk(info)
        if name == "REDLOCK.HELLO":
            return b"-ERR unknown command `REDLOCK.HELLO`, with args beginning with: `1`, \r\n"
        if name == "EVALSHA":
            return b"-NOSCRIPT No matching script.\r\n"
        if name == "ZADD":
            return b"-ERR syntax error\r\n"
        return b"$-1\r\n" if name in ("EVAL", "HGET") else b"+OK\r\n"

    return answer


def protected(words):
    return (b"-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the "
            b"default user.\r\n")


class FakeNode:
    """Listens on a port of its own; answer(words) returns the bytes for each command, None hangs up."""

    def __init__(self, answer):
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rwb") as stream:
            while head := stream.readline():
                words = []
                for _ in range(int(head[1:])):
                    length = int(stream.readline()[1:])
                    words.append(stream.read(length + 2)[:-2].decode(errors="replace"))
                answer = self.answer(words)
                if answer is None:
                    return
                stream.write(answer)
                stream.flush()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
