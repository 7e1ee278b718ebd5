// SPDX-License-Identifier: BSD-2-Clause
//
// node-redlock 4, which is what npm installs when no version is said: its defaults. ../README.md has the protocol.
// usage: node peer.js URL ...
//
// But for ioredis, which gives a command to a dead node up after 1 failed connection instead of 20: it waits for the
// answer of every node, and 20 take more than ten seconds for each of its tries.
"use strict";
const { fail, packages, run, versionOf } = require("../speaking.js");
const Redis = packages("ioredis");
const Redlock = packages("redlock");

async function main() {
  const clients = process.argv.slice(2).map((url) => new Redis(url, { maxRetriesPerRequest: 1 }));
  for (const client of clients) client.on("error", () => {}); // a node that is away is told of again and again
  await Promise.all(clients.map((client) => client.ping()));
  const redlock = new Redlock(clients);
  redlock.on("clientError", () => {});
  const greeting = {
    name: "node-redlock", version: versionOf("redlock"), key: "R", token: "32 hex digits",
    defaults: {
      ttl: "none: it is always said", retries: redlock.retryCount, delay_ms: `${redlock.retryDelay} +- ${redlock.retryJitter}`,
      drift: `${redlock.driftFactor * 100} % + 2 ms`, ioredis: versionOf("ioredis"),
    },
  };
  await run(greeting, {
    // It has no way to try once: retryCount 0 is taken for unset, 1 is the least.
    acquire: async (resource, ttlMs, waitMs) =>
      redlock.lockWithOptions(resource, ttlMs, waitMs === 0 ? { retryCount: 1, retryDelay: 1 } : {}),
    token: (lock) => lock.value,
    extend: async (lock, ttlMs) => lock.extend(ttlMs),
    release: async (lock) => lock.unlock(),
  });
}

main().catch(fail);
