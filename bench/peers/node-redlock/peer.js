// SPDX-License-Identifier: BSD-2-Clause
//
// node-redlock as one of the peers: its defaults. ../README.md has the protocol.
// usage: node peer.js cycles|holds WORKERS WARM_MS OPEN_MS TTL_MS RESOURCE   (nodes from REDLOCK_NODES)
"use strict";
const fs = require("fs");
const { once } = require("events");
const { setTimeout: sleep } = require("timers/promises");
const Redis = require("ioredis");
const { default: Redlock } = require("redlock");

const [kind, workers, warmMs, openMs, ttlMs, resource] = process.argv.slice(2);
const ttl = Number(ttlMs);

const nowUs = () => Number(process.hrtime.bigint() / 1000n);
const say = (told) => fs.writeSync(1, JSON.stringify(told) + "\n");
const versionOf = (name) => JSON.parse(fs.readFileSync(`node_modules/${name}/package.json`)).version.replace(/^v/, "");

async function cycle(redlock, window, name, counted) {
  for (let from = nowUs(); from < window.closes; ) {
    try {
      const lock = await redlock.acquire([name], ttl);
      await lock.release();
      const to = nowUs();
      if (to >= window.opens && to < window.closes) counted.latencies.push(to - from);
      from = to;
    } catch {
      counted.failed++;
      from = nowUs();
    }
  }
}

async function runCycles(redlock, window) {
  const counted = { latencies: [], failed: 0 };
  await Promise.all(
    Array.from({ length: Number(workers) }, (_, i) => cycle(redlock, window, `${resource}:${i}`, counted)));
  const sorted = Float64Array.from(counted.latencies).sort();
  const percentile = (percent) => sorted[Math.floor(((sorted.length - 1) * percent) / 100)] ?? 0;
  return {
    cycles: sorted.length, open_us: window.closes - window.opens, failed: counted.failed,
    p50_us: percentile(50), p99_us: percentile(99), max_us: percentile(100),
  };
}

async function stand(redlock, window) {
  const turns = [];
  let asked = nowUs();
  while (nowUs() < window.closes) {
    let lock;
    try {
      lock = await redlock.acquire([resource], ttl);
    } catch {
      continue; // it goes on waiting
    }
    const got = nowUs();
    await sleep(1);
    turns.push([asked, got, nowUs()]);
    await lock.release().catch(() => {});
    asked = nowUs();
  }
  return [...turns, [asked, nowUs()]];
}

async function runHolds(redlock, window) {
  return { workers: await Promise.all(Array.from({ length: Number(workers) }, () => stand(redlock, window))) };
}

async function main() {
  const clients = process.env.REDLOCK_NODES.split(",").map((url) => new Redis(url));
  await Promise.all(clients.map((client) => client.ping()));
  const redlock = new Redlock(clients);
  const { retryCount, retryDelay, retryJitter } = redlock.settings;
  say({
    version: versionOf("redlock"),
    defaults: `ioredis ${versionOf("ioredis")}; ${retryCount} retries, ${retryDelay} ms apart, jitter ${retryJitter} ms`,
  });
  const [line] = await Promise.race([once(process.stdin, "data"), once(process.stdin, "end")]);
  if (line === undefined) process.exit(1); // nobody wants it any more
  const opens = nowUs() + Number(warmMs) * 1000;
  const window = { opens, closes: opens + Number(openMs) * 1000 };
  say(await (kind === "holds" ? runHolds : runCycles)(redlock, window));
  process.exit(0);
}

main().catch((error) => {
  console.error(`peer: ${error.message}`);
  process.exit(1);
});
