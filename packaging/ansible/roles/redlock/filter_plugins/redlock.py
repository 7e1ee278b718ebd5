# SPDX-License-Identifier: BSD-2-Clause
"""What /etc/redlock.conf of the hosts says now, and which settings of the role would contradict it at the cost of locks."""
import fractions
import math
import re
import urllib.parse

UNITS = {"ms": 1, "s": 1000, "": 1000, "m": 60000, "h": 3600000}
TTL_MAX = ("redlock_ttl_max is {wanted}, but ttl-max in /etc/redlock.conf is {now} on {hosts}. When all servers are lost, `redlock quorum init` waits "
           "for ttl-max: with a shorter one, a lock can have two holders. Keep redlock_ttl_max: {now}. `redlock quorum set-ttl-max {wanted}` lowers "
           "what a lock may have, without it.")
PORT = ("redlock_port is {wanted}, but /etc/redlock.conf on {hosts} has servers at port {now}: a restart there would take one after the other from "
        "all clients and from the quorum. Keep redlock_port: {now}. To move locks to other servers: redlock quorum replace. When no lock is needed: stop "
        "all servers, write the new port into /etc/redlock.conf on each host, and run the role again.")
NODES = ("the servers are {wanted}, but {now} in /etc/redlock.conf on {hosts}: the quorum has its members under these names. To add or replace a server: "
         "write the new list into /etc/redlock.conf on each host that has one, and run the role again. It makes the servers and ends at `redlock quorum init`, "
         "as the members are still others: then `redlock quorum replace`, or `add` and `remove`.")
PASSWORD = ("redlock_password is another than in /etc/redlock.conf on {hosts}: a restart with it would take one server after the other from all "
            "clients. First the servers accept both passwords, then the clients and these hosts get the new one in /etc/redlock.conf, and then this role "
            "ends the old one: the commands are in packaging.md, \"Another password\".")
PREFIX = ("redlock_prefix is '{wanted}', but prefix in /etc/redlock.conf is '{now}' on {hosts}: clients with the one and with the other would hold the "
          "same lock, under two names. Keep redlock_prefix: '{now}'. When no client runs: write the new one into /etc/redlock.conf on each host, and run "
          "the role again.")


def milliseconds(text):
    """Of a duration as redlock.conf(5) has them."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)(ms|[smh]?)", str(text).strip())
    if not found:
        raise ValueError(f"'{text}' is not a duration; write it as 500ms, 30s, 2m, 1h or plain seconds")
    return math.ceil(fractions.Fraction(found[1]) * UNITS[found[2]])


def _values(text, key):
    """Those of all profiles, without quotes and comments."""
    return re.findall(rf"(?m)^[ \t]*{key}[ \t]*=[ \t]*[\"']?(.*?)[\"']?(?:[ \t]+[#;].*)?[ \t\r]*$", text)


def _nodes(text):
    """The password of the user `locks`, the address and the port, for each node that has them."""
    urls = [url.strip() for line in _values(text, "nodes") for url in line.split(",")]
    found = [re.fullmatch(r"redis://locks:([^@]*)@(.*):(\d+)(?:/\d*)?", url) for url in urls]
    return [(urllib.parse.unquote(each[1]), each[2], each[3]) for each in found if each]


def refusals(before, ttl_max, port, password, prefix, addresses):
    """A sentence for each setting that is refused. `before`: the result of a task that read the file, for each host. `addresses`: of each
    host of the group, if it has one, and its name."""
    refused, wanted_nodes = {}, sorted(str(address or name) for address, name in addresses)
    for host, text in ((each["item"], each["stdout"]) for each in before):
        nodes = _nodes(text)
        wrong = [(TTL_MAX, ttl_max, now) for now in _values(text, "ttl-max") if milliseconds(now) > milliseconds(ttl_max)]
        wrong += [(PORT, port, now) for _, _, now in nodes if now != str(port)]
        wrong += [(PASSWORD, None, None) for now, _, _ in nodes if now != str(password)]
        known = sorted({now for _, now, _ in nodes})
        wrong += [(NODES, " ".join(wanted_nodes), " ".join(known))] if nodes and known != wanted_nodes else []
        # A file without nodes of the role's is somebody else's, and the role's first.
        wrong += [(PREFIX, prefix, now) for now in _values(text, "prefix") if nodes and now != str(prefix)]
        for each in wrong:
            refused.setdefault(each, {})[host] = True
    return [sentence.format(wanted=wanted, now=now, hosts=", ".join(hosts)) for (sentence, wanted, now), hosts in refused.items()]


class FilterModule:
    def filters(self):
        return {"redlock_milliseconds": milliseconds, "redlock_refusals": refusals}
