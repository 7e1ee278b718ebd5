#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does the layering check notice? Each violation is planted in a small tree of its own and must be named."""
import os
import pathlib
import subprocess
import sys
import tempfile

CHECKER = pathlib.Path(__file__).with_name("layering.py")
HEALTHY = {
    "include/redlock.h": '#include <string.h>\n#include "redlock/base.h"\n',
    "include/redlock/base.h": "#include <stdint.h>\n",
    "src/core/core.h": "#include <stdint.h>\nint rl_sum(int *n);\n",
    "src/core/sum.c": '#include "core/core.h"\n#include <string.h>\nint rl_sum(int *n) { int a[64]; memcpy(a, n, sizeof a); return a[*n]; }\n',
    "src/policy/policy.h": '#include "core/core.h"\nint rl_pause(int n);\nint rl_kept(int n);\n',
    "src/policy/policy.c": '#include "policy/policy.h"\nint rl_pause(int n) { return n; }\nint rl_kept(int n) { return -n; }\n',
    "sim/clients/actor.c": '#include "nodes/nodes.h"\n',
    "sim/clients/conn.c": '#include "policy/policy.h"\nint conn(int n);\nint conn(int n) { return rl_pause(n); }\n',
    "src/gate/gate.c": "#include <redlock.h>\n#include <pthread.h>\n",
    "src/trace/words.h": "struct text;\n",
    "src/net/net.h": '#include "core/core.h"\n',
    "src/net/codec/url.h": "struct url;\n",
    "src/net/conn/net.c": '#include "net/net.h"\n#include "net/codec/url.h"\n#include <hiredis/hiredis.h>\n#include <sys/socket.h>\n',
    "src/net/conn/conn.h": "struct conn;\n",
    "src/net/conn/conn.c": '#include "policy/policy.h"\nint retry(int n);\nint retry(int n) { return rl_pause(n); }\n',
    "src/client/client.h": '#include "client/schedule/schedule.h"\n',
    "src/client/client.c": "#include <redlock.h>\n#include <pthread.h>\n#include \"net/net.h\"\n#include \"client/locks/locks.h\"\n",
    "src/client/schedule/schedule.h": '#include "net/net.h"\n',
    "src/client/schedule/turn.h": '#include "schedule.h"\n',
    "src/client/schedule/driver.c": '#include "turn.h"\n',
    "src/client/guarding/guarding.h": '#include "client/client.h"\n#include "record.h"\n',
    "src/client/guarding/record.h": '#include "net/net.h"\n',
    "src/client/locks/locks.h": '#include "client/client.h"\n',
    "src/client/locks/lock.h": '#include "locks.h"\n',
    "src/client/locks/step.c": '#include "client/guarding/guarding.h"\n#include "lock.h"\n',
    "src/client/ask/ask.h": '#include "client/client.h"\n',
    "src/client/look/look.h": '#include "net/net.h"\n',
    "src/client/look/peek.c": '#include "client/ask/ask.h"\n#include "client/locks/locks.h"\n#include "look.h"\n',
    "src/client/change/change.h": '#include "net/net.h"\n',
    "sim/history/history.h": '#include "core/core.h"\n',
    "sim/judges/check.h": '#include "history/history.h"\n',
    "sim/judges/leases.c": '#include "check.h"\n',
    "sim/world/world.h": '#include "history/history.h"\n',
    "sim/nodes/nodes.h": '#include "world/world.h"\n',
    "sim/nodes/queue.h": "struct queue;\n",
    "sim/nodes/server.c": '#include "nodes.h"\n#include "queue.h"\n#include "net/net.h"\n#include "client/guarding/record.h"\n',
    "serve/serve.h": "struct options;\n",
    "serve/loop/gateway.h": "struct gateway;\n",
    "serve/key/key.h": '#include "loop/gateway.h"\n',
    "serve/loop/request.c": '#include <redlock.h>\n#include "serve.h"\n#include "gateway.h"\n#include <sys/socket.h>\n#include <hiredis/hiredis.h>\n',
    "cli/main.c": "#include <redlock.h>\n#include \"../serve/serve.h\"\n#include <stdio.h>\n#include \"main.h\"\n",
    "cli/main.h": "struct options;\n",
    "cli/process/clock.h": "struct clock;\n",
    "cli/frame/session.h": '#include "process/clock.h"\n',
    "cli/explain/votes.h": '#include "frame/session.h"\n',
    "cli/look/show.h": '#include "explain/votes.h"\n',
    "cli/look/show.c": '#include "show.h"\n',
    "cli/run/run.h": '#include "explain/votes.h"\n',
    "cli/up/servers.h": '#include "server.h"\n',
    "cli/up/server.h": "struct server;\n",
    "bench/program/bench.h": '#include "up/servers.h"\n',
    "top/model.h": '#include "explain/votes.h"\n',
    **{f"serve/key/key_{i}.c": f"void key_{i}(void); void key_{i + 1}(void); void key_{i}(void) {{ key_{i + 1}(); }}\n" for i in range(6)},
    **{f"cli/doctor/rule_{i}.c": '#include "explain/votes.h"\n' for i in range(25)},
}
# (file, line added to it, what the check must say)
PLANTED = [
    ("src/core/sum.c", "#include <stdio.h>", "core includes <stdio.h>"),
    ("src/core/sum.c", '#include "net/net.h"', "src/core must not know src/net/net.h"),
    ("src/core/sum.c", "#include <redlock.h>", "src/core must not know include/redlock.h"),
    ("src/core/sum.c", "int time(int *); int rl_now(void); int rl_now(void) { return time(0); }", "the pure rooms' objects use time"),
    ("src/policy/policy.c", "int time(int *); int rl_now(void); int rl_now(void) { return time(0); }",
     "the pure rooms' objects use time"),
    ("src/policy/policy.c", "#include <stdlib.h>", "policy includes <stdlib.h>"),
    ("src/policy/policy.h", "#include <sys/socket.h>", "policy includes <sys/socket.h>"),
    ("src/policy/policy.c", '#include "net/net.h"', "src/policy must not know src/net/net.h"),
    ("src/net/conn/conn.c", "int keep(int n); int keep(int n) { return rl_kept(n); }",
     "src/net asks rl_kept(), and the simulator does not"),
    ("src/client/client.c", "#include <sys/socket.h>", "only src/net may include <sys/socket.h>"),
    ("src/client/client.c", "#  include <sys/epoll.h>", "only src/net may include <sys/epoll.h>"),
    ("src/client/client.c", "#include <hiredis/hiredis.h>", "only src/net may include <hiredis/hiredis.h>"),
    ("src/client/client.c", "#include <openssl/ssl.h>", "only src/net may include <openssl/ssl.h>"),
    ("src/client/client.c", '#include "net/codec/url.h"', "src/client must not know src/net/codec/url.h"),
    ("src/net/codec/url.h", '#include "net/conn/conn.h"', "src/net/codec must not know src/net/conn/conn.h"),
    ("src/client/client.c", '#include "../../cli/main.h"', "src/client must not know cli/main.h"),
    ("src/client/schedule/driver.c", '#include "client/client.h"', "src/client/schedule must not know src/client/client.h"),
    ("src/client/schedule/driver.c", "#include <sys/epoll.h>", "only src/net may include <sys/epoll.h>"),
    ("src/client/client.h", '#include "client/locks/locks.h"', "src/client/client.h must not know src/client/locks/locks.h"),
    ("src/client/guarding/guarding.h", '#include "client/locks/locks.h"',
     "src/client/guarding must not know src/client/locks/locks.h"),
    ("src/client/locks/step.c", '#include "client/look/look.h"', "src/client/locks must not know src/client/look/look.h"),
    ("src/client/ask/ask.h", '#include "client/locks/locks.h"', "src/client/ask must not know src/client/locks/locks.h"),
    ("src/client/look/peek.c", '#include "client/change/change.h"',
     "src/client/look must not know src/client/change/change.h"),
    ("src/client/locks/step.c", '#include "client/schedule/turn.h"', "through src/client/schedule/schedule.h only"),
    ("src/client/locks/step.c", '#include "../guarding/record.h"', "through src/client/guarding/guarding.h only"),
    ("src/client/look/peek.c", '#include "client/locks/lock.h"', "through src/client/locks/locks.h only"),
    ("src/client/client.c", '#include "locks/lock.h"', "through src/client/locks/locks.h only"),
    ("src/client/client.h", '#include "client/guarding/guarding.h"',
     "a circle of includes: src/client/guarding -> src/client/client.h -> src/client/guarding"),
    ("sim/nodes/server.c", '#include "client/locks/locks.h"', "sim/nodes must not know src/client/locks/locks.h"),
    ("sim/nodes/server.c", '#include "client/guarding/guarding.h"', "through src/client/guarding/record.h only"),
    ("sim/judges/leases.c", '#include "world/world.h"', "sim/judges must not know sim/world/world.h"),
    ("sim/world/world.h", '#include "nodes/nodes.h"', "a circle of includes: sim/nodes -> sim/world -> sim/nodes"),
    ("sim/clients/actor.c", '#include "nodes/queue.h"', "sim/clients sees sim/nodes through sim/nodes/nodes.h only"),
    ("src/gate/gate.c", '#include "net/net.h"', "src/gate must not know src/net/net.h"),
    ("src/gate/gate.c", '#include "core/core.h"', "src/gate must not know src/core/core.h"),
    ("src/gate/gate.c", "#include <sys/socket.h>", "only src/net may include <sys/socket.h>"),
    ("src/client/client.c", '#include "trace/words.h"', "src/client must not know src/trace/words.h"),
    ("src/net/conn/net.c", '#include "../../../cli/main.h"', "src/net/conn must not know cli/main.h"),
    ("cli/main.c", '#include "core/core.h"', "cli must not know src/core/core.h"),
    ("cli/main.c", '#include "../src/net/net.h"', "cli must not know src/net/net.h"),
    ("cli/main.c", "#include <hiredis/hiredis.h>", "only src/net may include <hiredis/hiredis.h>"),
    ("cli/process/clock.h", '#include "frame/session.h"', "cli/process must not know cli/frame/session.h"),
    ("cli/frame/session.h", '#include "explain/votes.h"', "cli/frame must not know cli/explain/votes.h"),
    ("cli/explain/votes.h", '#include "../look/show.h"', "cli/explain must not know cli/look/show.h"),
    ("cli/look/show.c", '#include "run/run.h"', "cli/look must not know cli/run/run.h"),
    ("cli/look/show.c", '#include "../main.h"', "cli/look must not know cli/main.h"),
    ("cli/look/show.c", '#include "core/core.h"', "cli/look must not know src/core/core.h"),
    ("cli/look/show.c", "#include <hiredis/hiredis.h>", "only src/net may include <hiredis/hiredis.h>"),
    ("cli/look/show.c", '#include "../../serve/serve.h"', "cli/look must not know serve/serve.h"),
    ("cli/main.c", '#include "look/show.h"', "cli must not know cli/look/show.h"),
    ("bench/program/bench.h", '#include "up/server.h"', "through cli/up/janitor.h and cli/up/servers.h only"),
    ("bench/program/bench.h", '#include "look/show.h"', "bench/program must not know cli/look/show.h"),
    ("bench/program/bench.h", '#include "net/net.h"', "bench/program must not know src/net/net.h"),
    ("bench/program/bench.h", "#include <hiredis/hiredis.h>", "only src/net may include <hiredis/hiredis.h>"),
    ("top/model.h", '#include "look/show.h"', "top must not know cli/look/show.h"),
    ("top/model.h", '#include "up/servers.h"', "top must not know cli/up/servers.h"),
    ("top/model.h", "#include <hiredis/hiredis.h>", "only src/net may include <hiredis/hiredis.h>"),
    ("cli/look/show.c", '#include "../../top/model.h"', "cli/look must not know top/model.h"),
    ("cli/up/server.h", '#include "../../bench/program/bench.h"', "cli/up must not know bench/program/bench.h"),
    ("cli/explain/votes.h", '#include "look/show.h"', "a circle of includes: cli/explain -> cli/look -> cli/explain"),
    ("cli/doctor/rule_25.c", "", "cli/doctor: 26 source files, more than 25"),
    ("serve/key/key_6.c", "void key_0(void); void key_6(void); void key_6(void) { key_0(); }",
     "serve/key: 7 files call each other in a circle: serve/key/key_0.c "),
    ("serve/loop/loop.c", "void key_3(void); void key_6(void); void key_6(void) { key_3(); }",
     "serve/key and serve/loop: 4 files call each other in a circle: serve/key/key_3.c "),
    ("cli/main.c", '#include "../serve/key/key.h"', "cli must not know serve/key/key.h"),
    ("serve/loop/gateway.h", '#include "key/key.h"', "a circle of includes: serve/key -> serve/loop -> serve/key"),
    ("serve/key/key.h", "#include <hiredis/hiredis.h>", "serve/key must not include <hiredis/hiredis.h>"),
    ("serve/loop/request.c", "#include <openssl/ssl.h>", "serve/loop must not include <openssl/ssl.h>"),
    ("serve/loop/request.c", '#include "core/core.h"', "serve/loop must not know src/core/core.h"),
    ("serve/loop/request.c", '#include "../cli/main.h"', "serve/loop must not know cli/main.h"),
    ("src/client/client.c", '#include "../../serve/serve.h"', "src/client must not know serve/serve.h"),
    ("include/redlock/base.h", "#include <stdio.h>", "include/redlock/base.h: includes stdio.h"),
    ("include/redlock.h", "#include <hiredis/hiredis.h>", "include/redlock.h: includes hiredis/hiredis.h"),
]


def compiled(root, name):
    out = str(root / name.replace("/", "_").replace(".c", ".o"))
    subprocess.run([os.environ.get("CC", "cc"), "-c", "-I", root / "src", root / name, "-o", out], check=True)
    return out


def check(root, planted=None):
    """Builds the small tree, with the line planted in one file; returns the checker's status and words."""
    for name, text in {**HEALTHY, **({planted[0]: HEALTHY.get(planted[0], "")} if planted else {})}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + (planted[1] + "\n" if planted and planted[0] == name else ""))
    objects = []
    if not planted or "#" not in planted[1]:
        core, policy, net, sim = (compiled(root, name) for name in
                                  ("src/core/sum.c", "src/policy/policy.c", "src/net/conn/conn.c", "sim/clients/conn.c"))
        build = root / "build"
        for path in root.glob("serve/*/*.c"):
            if "#" not in path.read_text():
                out = build / path.parent.relative_to(root) / "CMakeFiles/serve.dir" / f"{path.name}.o"
                out.parent.mkdir(parents=True, exist_ok=True)
                pathlib.Path(compiled(root, path.relative_to(root).as_posix())).rename(out)
        objects = [core, policy, "--policy", policy, "--net", net, "--sim", sim, "--build", build]
    done = subprocess.run([sys.executable, CHECKER, root, *objects], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main():
    failed = 0
    for planted in [None, *PLANTED]:
        with tempfile.TemporaryDirectory() as directory:
            status, words = check(pathlib.Path(directory), planted)
        expected = (1, planted[2]) if planted else (0, "the layers hold")
        if status != expected[0] or expected[1] not in words:
            failed += 1
            print(f"planted {planted}: expected {expected}, got ({status}, {words!r})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
