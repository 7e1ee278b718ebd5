// SPDX-License-Identifier: BSD-2-Clause
//
// The package libredlock as one of the peers: ../../peers/README.md has the protocol.
// usage: node peer.js cycles WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE   (nodes from REDLOCK_NODES)
'use strict';
const fs = require('fs');
const { once } = require('events');
const { Client, version } = require('../../../bindings/node');

const NODE_TIMEOUT_MS = 5000; // the machine is kept busy on purpose
const [, workers, warmMs, openMs, ttl, resource] = process.argv.slice(2);
const nowUs = () => Number(process.hrtime.bigint() / 1000n);
const say = (told) => fs.writeSync(1, `${JSON.stringify(told)}\n`);

async function cycle(client, window, name, latencies) {
  for (let from = nowUs(); from < window.closes;) {
    const lock = await client.acquire(name, { ttl: Number(ttl) });
    await lock.release();
    const to = nowUs();
    if (to >= window.opens && to < window.closes) latencies.push(to - from);
    from = to;
  }
}

async function main() {
  const client = new Client(process.env.REDLOCK_NODES, { nodeTimeout: NODE_TIMEOUT_MS });
  await client.using(resource, {}, () => {});
  say({ version, defaults: `node timeout ${NODE_TIMEOUT_MS} ms` });
  const [line] = await Promise.race([once(process.stdin, 'data'), once(process.stdin, 'end')]);
  if (line === undefined) process.exit(1); // nobody wants it any more
  const opens = nowUs() + Number(warmMs) * 1000, window = { opens, closes: opens + Number(openMs) * 1000 };
  const latencies = [];
  await Promise.all(Array.from({ length: Number(workers) }, (_, i) => cycle(client, window, `${resource}:${i}`, latencies)));
  const sorted = Float64Array.from(latencies).sort();
  const percentile = (percent) => sorted[Math.floor(((sorted.length - 1) * percent) / 100)] ?? 0;
  say({
    cycles: sorted.length, open_us: window.closes - window.opens, failed: 0,
    p50_us: percentile(50), p99_us: percentile(99), max_us: percentile(100),
  });
  await client.close();
  process.exit(0);
}

main().catch((error) => {
  console.error(`peer: ${error.message}`);
  process.exit(1);
});
