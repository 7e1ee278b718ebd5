// SPDX-License-Identifier: BSD-2-Clause
//
// node-redlock 5, and @sesamecare-oss/redlock, which continues it: their defaults.
"use strict";
const { run, versionOf } = require("./speaking.js");

// The nodes are the arguments. `more` makes further commands from the redlock.
async function serve(name, library, Redis, Redlock, more = () => ({})) {
  const clients = process.argv.slice(2).map((url) => new Redis(url));
  for (const client of clients) client.on("error", () => {}); // a node that is away is told of again and again
  await Promise.all(clients.map((client) => client.ping()));
  const redlock = new Redlock(clients);
  const { retryCount, retryDelay, retryJitter, driftFactor } = redlock.settings;
  const greeting = {
    name, version: versionOf(library), key: "R", token: "32 hex digits",
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
    ...more(redlock),
  });
}

module.exports = { serve };
