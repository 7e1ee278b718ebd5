// SPDX-License-Identifier: BSD-2-Clause
//
// @sesamecare-oss/redlock, which continues node-redlock 5: its defaults. ../README.md has the protocol. usage: node peer.js URL ...
"use strict";
const { fail, packages, run, sleep, versionOf } = require("../speaking.js");
const { Redis } = packages("ioredis");
const { Redlock } = packages("@sesamecare-oss/redlock");

async function main() {
  const clients = process.argv.slice(2).map((url) => new Redis(url));
  for (const client of clients) client.on("error", () => {}); // a node that is away is told of again and again
  await Promise.all(clients.map((client) => client.ping()));
  const redlock = new Redlock(clients);
  const { retryCount, retryDelay, retryJitter, driftFactor } = redlock.settings;
  const greeting = {
    name: "@sesamecare-oss/redlock", version: versionOf("@sesamecare-oss/redlock"), key: "R", token: "32 hex digits",
    defaults: {
      ttl: "none: it is always said", retries: retryCount, delay_ms: `${retryDelay} +- ${retryJitter}`,
      drift: `${driftFactor * 100} % + 2 ms`, ioredis: versionOf("ioredis"),
    },
  };
  await run(greeting, {
    acquire: (resource, ttlMs, waitMs) => redlock.acquire([resource], ttlMs, waitMs === 0 ? { retryCount: 0 } : undefined),
    token: (lock) => lock.value,
    extend: (lock, ttlMs) => lock.extend(ttlMs),
    release: (lock) => lock.release(),
    hold: (resource, ttlMs, holdMs) =>
      redlock.using([resource], ttlMs, { automaticExtensionThreshold: ttlMs / 2 }, async (signal) => {
        await sleep(holdMs);
        if (signal.aborted) throw signal.error;
      }),
  });
}

main().catch(fail);
