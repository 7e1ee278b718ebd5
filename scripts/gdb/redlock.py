# SPDX-License-Identifier: BSD-2-Clause
"""Prints a client, a lock and a node in gdb as a person wants to read them. Tokens and passwords are left out.

    gdb -x scripts/gdb/redlock.py PROGRAM
    (gdb) print *lock
    nightly: held, validity ends at 81234.500 ms, granted by node1..5 of 5, renewals 2
"""
import gdb
import gdb.printing

NEVER = 2**63 - 1


def text(bytes_, size=None):
    """A C string, or `size` bytes; what does not print is shown as \\xNN."""
    if size is None:
        raw = bytes_.string(errors="replace").encode()
    else:
        raw = gdb.selected_inferior().read_memory(int(bytes_), size).tobytes()
    return "".join(chr(c) if 0x20 <= c < 0x7f else f"\\x{c:02x}" for c in raw)


def enum(value, prefix):
    """The name of an enumerator without its prefix, in small letters."""
    return str(value).removeprefix(prefix).lower().replace("_", " ")


def verdict(value):
    return enum(value.cast(gdb.lookup_type("enum redlock_verdict")), "REDLOCK_VERDICT_")


def nodes(mask):
    mask, found = int(mask), []
    for node in range(15):
        if mask >> node & 1:
            if found and found[-1][1] == node:
                found[-1][1] = node + 1
            else:
                found.append([node + 1, node + 1])
    return "node" + ",".join(f"{a}" if a == b else f"{a}..{b}" for a, b in found) if found else "no node"


def at(ns):
    return "never" if int(ns) == NEVER else f"{int(ns) / 1e6:.3f} ms"


def fence(lock):
    """Behind the keys, if the lock may be guarded."""
    if not lock["client"]["lock_layout"]["fenced"]:
        return 0
    keys = lock["keys"].address.cast(gdb.lookup_type("struct net_bytes").pointer())
    after = keys + int(lock["keys_count"]) + int(lock["shared"])
    return int(after.cast(gdb.lookup_type("struct fenced").pointer())["fence"])


class Lock:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        lock, count = self.value, int(self.value["keys_count"])
        keys = lock["keys"].address.cast(gdb.lookup_type("struct net_bytes").pointer())
        name = " + ".join(text(keys[i]["data"], int(keys[i]["bytes"])) for i in range(count))
        phase = enum(lock["phase"].cast(gdb.lookup_type("enum phase")), "PHASE_")
        if phase == "acquiring":
            machine = lock["extra"]["acquisition"].dereference()["machine"]
            tally = machine["attempt"]["tally"]
            return (f"{name}: acquiring, {enum(machine['state'], 'RL_ACQUIRE_')}, try {int(machine['tries'])}, "
                    f"granted by {nodes(tally['granted'])} of {int(tally['nodes'])}")
        if phase == "free":
            return f"{name}: free"
        lease = lock["lease"]
        return (f"{name}: {enum(lease['state'].cast(gdb.lookup_type('enum rl_lease_state')), 'RL_LEASE_')}, validity ends at {at(lease['validity_end'])}, "
                f"may be on {nodes(lease['asked'])}, fence {fence(lock)}, renewals {int(lease['renewals'])}")


class Client:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        client, stats = self.value, self.value["stats"]
        mode = "guarded" if client["guard"] else "auto" if client["automode"] else "classic"
        return (f"client of {int(client['nodes'])} nodes, mode {mode}, acquired {int(stats['acquired'])}, "
                f"released {int(stats['released'])}, lost {int(stats['lost'])}")

    def children(self):
        net = self.value["net"]
        for i in range(int(self.value["nodes"]) if net else 0):
            yield f"node{i + 1}", net.dereference()["node"][i]


class Node:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        node = self.value
        policy = node["net"].dereference()["policy"]["node"][int(node["index"])]
        waiting, call = 0, policy["calls"].dereference()["head"]
        while call:
            waiting, call = waiting + 1, call.dereference()["next"]
        state = "connected" if policy["up"] else "not connected"
        why = text(node["status"]["text"])
        return (f"{state}, {verdict(policy['verdict'])}, {waiting} answers awaited, {int(node['sent'])} sent, "
                f"{int(node['answered'])} answered" + (f": {why}" if why else ""))


printers = gdb.printing.RegexpCollectionPrettyPrinter("redlock")
printers.add_printer("redlock_lock", "^redlock_lock$", Lock)
printers.add_printer("redlock_client", "^redlock_client$", Client)
printers.add_printer("node", "^node$", Node)
gdb.printing.register_pretty_printer(gdb.current_objfile(), printers)
