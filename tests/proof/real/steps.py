# SPDX-License-Identifier: BSD-2-Clause
"""The lines of sim/world/steps.h, made from what recorders (recorder.py) and workers (worker.c) wrote down.

Each run is what happened to the resources of one name: in classic mode to the two of a pair, in one epoch; in guarded mode to
one resource.
"""
import collections
import re

MS = 1_000_000


class Request:
    def __init__(self, node, words):
        self.node = node
        self.answered = None # nothing came back
        self.arrived, self.sent, self.replied = (int(word) for word in words[:3])
        self.client, self.op, self.token, self.ttl, self.fence = int(words[3]), words[4], words[5], int(words[6]), int(words[7])
        self.keys, self.reply = words[8].split(","), words[9]
        self.after = [(None if value == "-" else value, int(ends), 0 if fence == "-" else int(fence))
                      for value, ends, fence in zip(words[10::3], words[11::3], words[12::3])]

    @property
    def executed(self):
        return self.reply == "-" or re.fullmatch("-?[0-9]+|OK", self.reply) is not None

    @property
    def granted(self):
        return self.reply == {"S": "OK", "T": "0"}.get(self.op, "1") or self.op == "S" and self.reply == "1"

    @property
    def settles(self):
        """It sets or moves an end."""
        return self.granted and self.op in "SE"


class Record:
    """The node's record from then on, or None: its data is lost."""

    def __init__(self, node, at, writer=0, intact=False, members=(), fences=()):
        self.node, self.at, self.writer, self.intact, self.members, self.fences = node, at, writer, intact, members, fences


Held = collections.namedtuple("Held", "token ends said")


def drift_of(ttl_ms):
    return ttl_ms * MS // 100 + 2 * MS


def number_of(key):
    return int(key.rpartition("-")[2])


class Run:
    """Its lines, with the times by which they are sorted."""

    SENT, SERVED, ANSWERED, TOLD = range(4)

    def __init__(self, number, world):
        self.number, self.world = number, world
        self.requests, self.told = [], []  # told: (time, kind, token, words)
        self.lines = []
        self.tokens = {}
        self.messages = 0

    def token(self, text):
        return self.tokens.setdefault(text, len(self.tokens) + 1)

    def add(self, at, order, *words):
        self.lines.append((at, order, len(self.lines), " ".join(str(word) for word in words)))

    def lines_of(self):
        """All of them."""
        self.add_requests()
        for at, kind, token, words in self.told:
            self.add(at, Run.TOLD, kind, at, self.token(token), *words[:self.told_words])
        yield f"seed {self.number}"
        for k in range(self.world.clients):
            yield f"D {k} 10000 {2 * MS} 0"
            yield f"N {k} " + " ".join(str(m) for m in range(self.world.nodes))
            yield f"C {k} 0 0 1000000"
        for m in range(self.world.nodes):
            yield f"K {m} 0 {self.world.keys_apart} 1000000"
        yield from self.beginning()
        for line in sorted(self.lines):
            yield line[3]
        yield "."

    # A request may be said to have been sent earlier than it was: that explains less. So the requests of one round are sent
    # in one instant: those of the first one in that in which one of them arrives; those of an extension in that from which
    # the validity counts of which the library told.

    def add_requests(self):
        won = {token: at for at, kind, token, _ in self.told if kind == "W"}
        left = {token: at for at, kind, token, _ in reversed(self.told) if kind in "RL"}
        began, extended = {}, collections.defaultdict(list)
        for request in sorted(self.requests, key=lambda r: r.arrived):
            if request.op == "S":
                began.setdefault(request.token, request.arrived)
        for at, kind, token, words in self.told:
            if kind == "P":
                extended[token].append(int(words[0]))
        for request in sorted(self.requests, key=lambda r: r.sent):
            at = request.arrived
            if request.op == "S" and at < won.get(request.token, at + 1):
                at = began[request.token]
            elif request.op == "E":
                starts = [until - request.ttl * MS + drift_of(request.ttl) for until in extended[request.token]]
                at = max([start for start in starts if won.get(request.token, 0) < start <= at] or [at])
            if request.op != "X":
                at = min(at, left.get(request.token, at))
            self.add_request(request, at)

    def add_request(self, request, at):
        self.messages += 1
        self.add_sent(request, at)
        if request.executed:
            self.add_served(request, self.messages)
            self.add_answered(request, self.messages)

    def add_answered(self, request, message):
        if request.answered:
            self.add(request.answered, Run.ANSWERED, "A", request.answered, message)

    # ---- what a server did ----

    def add_served(self, request, message):
        at, body, held = request.replied, self.body_of(request.node), self.held_by(request.node)
        said = said_of(request, held)
        if request.settles and None in [value for value, _, _ in request.after]:
            self.add_short(request, message)
            return
        if request.settles and said and said[0]:
            # The key's end says in which millisecond it was, at the latest.
            at = max(request.sent, min(at, (said[0] - request.ttl + 1) * MS - self.world.keys_apart - 1))
        before, after = ended_around(request, held)
        for key in before:
            self.add(at, Run.SERVED, "Z", at, body, self.place_of(key))
            del held[key]
        self.add_verdict(request, at, body, message)
        for key, (value, ends, _), says in zip(request.keys, request.after, said):
            if key in after:
                late = max(at, (held.pop(key).ends + 1) * MS - self.world.keys_apart)
                self.add(late, Run.SERVED, "Z", late, body, self.place_of(key))
                continue
            held.pop(key, None)
            if value:
                held[key] = Held(value, ends, says)
            self.add(at, Run.SERVED, "Y", at, body, self.place_of(key), self.token(value) if value else 0, says * MS)


    def add_short(self, request, message):
        """The server was stopped behind the request for longer than its TTL: its keys have ended."""
        at, body, held = request.sent, self.body_of(request.node), self.held_by(request.node)
        for key in request.keys:
            if request.op == "S" and held.pop(key, None):
                self.add(at, Run.SERVED, "Z", at, body, self.place_of(key))
        self.add_verdict(request, at, body, message)
        late = at + (request.ttl + 1) * MS
        for key in request.keys:
            held.pop(key, None)
            self.add(late, Run.SERVED, "Z", late, body, self.place_of(key))


# Redis before 7.2 reads its clock for each command of a script, so the keys of one request may end in two milliseconds. In the
# proof they end in one, the first: a key may stay longer than it has to.

def said_of(request, held):
    """When each key ends, in the trace."""
    moved = [ends for key, (value, ends, _) in zip(request.keys, request.after)
             if value and (key not in held or held[key].ends != ends)]
    return [0 if not value else held[key].said if key in held and held[key].ends == ends else min(moved)
            for key, (value, ends, _) in zip(request.keys, request.after)]


def ended_around(request, held):
    """The keys whose time was over before the request was served, and those whose time was over behind it."""
    gone = [key for key, (value, _, _) in zip(request.keys, request.after) if key in held and value is None]
    if request.op == "S":
        return ([key for key in request.keys if key in held], []) if request.granted else ([], gone)
    if request.reply == "0" and request.op in "EX":
        return gone, []
    if request.op == "X":
        return [], [key for key in gone if held[key].token != request.token]
    return [], gone


class ClassicRun(Run):
    told_words = 1

    def __init__(self, number, world):
        super().__init__(number, world)
        self.held = [{} for _ in range(world.nodes)]

    @staticmethod
    def name_of(key):
        epoch, number = re.fullmatch(r"p(\d+)-(\d+)", key).groups()
        return int(epoch), int(number) // 2

    def beginning(self):
        return ()

    def place_of(self, key):
        return number_of(key) % 2

    def body_of(self, node):
        return node

    def held_by(self, node):
        return self.held[node]

    def add_sent(self, request, at):
        words = [request.op, at, request.client, self.token(request.token), request.node, self.messages]
        if request.op != "X":
            words.append(request.ttl * MS)
        if request.op == "S":
            words.extend(self.place_of(key) for key in request.keys)
        self.add(at, Run.SENT, *words)

    def add_verdict(self, request, at, node, message):
        self.add(at, Run.SERVED, "V", at, node, message, int(request.granted))


class GuardedRun(Run):
    told_words = 2

    def __init__(self, number, world):
        super().__init__(number, world)
        self.bodies = list(range(world.nodes))
        self.bodies_count = world.nodes
        self.held = [{} for _ in range(world.nodes)]
        self.sets = {}  # by node, client and token: (message, granted)

    @staticmethod
    def name_of(key):
        return number_of(key)

    def beginning(self):
        yield f"G {self.world.nodes} 1 {self.world.ttl_max_ms * MS}"

    def place_of(self, key):
        return 0

    def body_of(self, node):
        return self.bodies[node]

    def held_by(self, node):
        return self.held[node]

    def add_requests(self):
        self.records = sorted(self.world.records, key=lambda record: record.at)
        super().add_requests()
        self.add_records(None)

    def add_records(self, before):
        """The records that were written before this time; None: all that are left."""
        while self.records and (before is None or self.records[0].at < before):
            record = self.records.pop(0)
            if record.members is None:
                self.add_loss(record)
            else:
                self.add_record(record)

    def add_loss(self, record):
        former = self.bodies[record.node]
        self.bodies[record.node] = body = self.bodies_count
        self.bodies_count += 1
        self.held[record.node] = {}
        self.add(record.at, Run.SERVED, "B", record.at, body, record.node, former + 1, 0)
        for words in (["Y", record.at, body, 0, 0, 0], ["I", record.at, body, 0, 0], ["F", record.at, body, 0, 0]):
            self.add(record.at, Run.SERVED, *words)

    def add_record(self, record):
        body, at = self.bodies[record.node], record.at
        members = [word for member, number, run_id in record.members
                   for word in (self.world.members[member], number, int(run_id[:15], 16))]
        self.add(at, Run.SERVED, "I", at, body, int(record.intact), record.writer, *members)
        self.add(at, Run.SERVED, "F", at, body, 0, record.fences[self.name])

    def add_request(self, request, at):
        self.add_records(request.sent)
        if request.op == "F":
            self.messages += 1
            self.add(at, Run.SENT, "M", at, self.messages, "F", request.client, 0, 0, 0, 0)
            if request.executed:
                self.add(request.replied, Run.SERVED, "V", request.replied, self.body_of(request.node), self.messages, 0,
                         "g" if int(request.reply) > 0 else "r")
                self.add_answered(request, self.messages)
        else:
            super().add_request(request, at)

    def add_sent(self, request, at):
        pair = (request.node, request.client, request.token)
        if request.op == "Z":
            return
        op = "A" if request.op == "S" else request.op
        # The fence of a SET is in the command behind it, which may be lost on the way.
        fence = self.world.fences.get(request.token, 0) if op == "A" else request.fence
        self.add(at, Run.SENT, "M", at, self.messages, op, request.client, self.token(request.token), request.ttl * MS, 0, fence)
        if op == "A":
            self.sets[pair] = (self.messages, request.granted)

    def add_verdict(self, request, at, body, message):
        part, verdict = 0, "g" if request.granted else "d"
        if request.op == "S":
            part = 1
        elif request.op == "Z":
            message, was_set = self.sets[request.node, request.client, request.token]
            self.add_answered(request, message)
            part, verdict = 2, verdict if not was_set else "g" if request.granted else "s"
            verdict = verdict if was_set else "d"
        elif request.reply == "-2":
            verdict = "r"
        elif request.op in "EX":
            verdict = {"1": "g", "-1": "d", "0": "a"}[request.reply]
        elif not request.granted:
            verdict = "s"
        self.add(at, Run.SERVED, "V", at, body, message, part, verdict)
        if request.after:
            self.add(at, Run.SERVED, "F", at, body, 0, request.after[0][2])


def until_released(told):
    """Without what another thread was told of a lock that this one has released: nobody acts on it."""
    released = {token: at for at, kind, token, _ in told if kind == "R"}
    return [line for line in told if line[1] == "R" or line[0] <= released.get(line[2], line[0])]


class World:
    """What all runs share, and the runs."""

    def __init__(self, directory, mode, nodes, clients, keys_apart, ttl_max_ms):
        self.nodes, self.clients, self.keys_apart, self.ttl_max_ms = nodes, clients, keys_apart, ttl_max_ms
        self.kind = {"classic": ClassicRun, "guarded": GuardedRun}[mode]
        self.records, self.members = [], {}
        self.fences = {}  # by token: that with which it asked first
        self.runs = {}
        reads, run_of_token = [], {}
        for node in range(nodes):
            requests = []
            for line in open(directory / f"node{node}", encoding="ascii"):
                kind, *words = line.split()
                if kind == "ANSWERED":
                    requests[int(words[1])].answered = int(words[0])
                    continue
                if kind != "REQUEST":
                    self.read_record(node, kind, words)
                    continue
                request = Request(node, words)
                requests.append(request)
                if request.op == "F":
                    reads.append(request)
                    continue
                run_of_token[request.token] = name = self.kind.name_of(request.keys[0])
                self.run(name).requests.append(request)
                if request.op == "Z":
                    self.fences.setdefault(request.token, request.fence)
        for client in range(clients):
            for line in open(directory / f"client{client}", encoding="ascii"):
                kind, at, token, *words = line.split()
                self.run(run_of_token[token]).told.append((int(at), kind, token, words))
        for run in self.runs.values():
            run.told = until_released(sorted(run.told))
            run.requests += reads

    def run(self, name):
        if name not in self.runs:
            self.runs[name] = self.kind(len(self.runs) + 1, self)
            self.runs[name].name = name
        return self.runs[name]

    def read_record(self, node, kind, words):
        if kind == "LOSS":
            self.records.append(Record(node, int(words[0]), members=None))
            return
        at, writer, intact, members, *fences = words
        if members == "-":
            return # it comes behind a loss
        members = [tuple(member.split(",")) for member in members.split(";")]
        if not self.members:
            self.members = {member: i for i, (member, _, _) in enumerate(members)}
        self.records.append(Record(node, int(at), int(writer), intact == "1", members, [int(fence) for fence in fences]))
