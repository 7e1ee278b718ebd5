# SPDX-License-Identifier: BSD-2-Clause
"""A recorder (recorder.py) of what the record of its server is, and of who reads it: lines H, J and U of sim/world/steps.h.

usage: record_recorder.py PORTS SERVER_PORT LOG SEED SCRIPTS_DIR RESOURCE

LOG ends with the number of the node.
"""
import sys

from recorder import Recorder, main, now

LETTERS = {"add": "a", "remove": "r", "ttl_max": "t", "none": "-"}


class RecordRecorder(Recorder):
    def __init__(self, ports, server_port, log, *rest):
        self.node, self.messages = int(str(log)[-1]), 0
        super().__init__(ports, server_port, log, *rest)

    def fields(self):
        flat, info = self.look(("HGETALL", "redlock:node"), ("INFO", "server"))
        return {name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2])}, info.decode()

    def write_record(self, writer=0, raised=0):
        record, info = self.fields()
        words = ["H", now(), 2 * self.node]
        if record:
            kind, *what = record["accepted"].split(" ")
            intact = record["standing"] == "intact" and f"run_id:{record['run_id']}" in info
            words += [int(intact), writer, raised]
            words += [record[name] for name in ("quorum", "node", "nonce", "loss", "begun", "epoch", "settled", "ttl_max", "ttl_next",
                                                "ballot", "accepted_ballot")]
            words += [LETTERS[kind], f"{int(what[0]):x}" if kind == "ttl_max" else what[0] if what else "0"]
            words += [member.split(" ")[0] for member in record["members"].splitlines()]
        else:
            words += [0, writer, 0]
        print(*words, file=self.log)

    def executed(self, client, words, request, times, value):
        command, self.messages = words[0].upper(), self.messages + 1
        message = 16 * self.messages + self.node
        if request and request.op == "Write":
            if value == b"1":
                self.write_record(client.number + 1, int(words[3 + int(words[2]) + 2] == b"1"))
            return None
        is_record = command == b"HGETALL" and words[1] == b"redlock:node"
        is_fences = request is not None and request.op == "F"
        if not (is_record or is_fences) or not value or isinstance(value, str):
            return None
        if is_fences and words[1].decode() != f"redlock:fences:{self.fields()[0].get('nonce')}":
            return None
        print("J", now(), 2 * self.node, client.number, message, int(is_fences), file=self.log)
        return message

    def answered(self, request):
        print("a", now(), request, file=self.log)


if __name__ == "__main__":
    main(*sys.argv[1:], kind=RecordRecorder)
