// SPDX-License-Identifier: BSD-2-Clause
//
// redis-semaphore's RedlockMutex on the same locks. ../README.md has the protocol. usage: node peer.js URL ...
//
// Two of its defaults are not left as they are. Its renewal is off, since it is the end of locks that is looked at. And
// ioredis gives a command to a dead node up after 1 failed connection instead of 20: it waits for the answer of every
// node, and 20 take more than ten seconds, longer than the locks of the counter last (../quirks/redis_semaphore_late.py).
"use strict";
const { fail, packages, run, versionOf } = require("../speaking.js");
const Redis = packages("ioredis");
const { RedlockMutex, defaultTimeoutOptions } = packages("redis-semaphore");

async function main() {
  const clients = process.argv.slice(2).map((url) => new Redis(url, { maxRetriesPerRequest: 1 }));
  for (const client of clients) client.on("error", () => {}); // a node that is away is told of again and again
  await Promise.all(clients.map((client) => client.ping()));
  const { lockTimeout, acquireTimeout, retryInterval, acquireAttemptsLimit } = defaultTimeoutOptions;
  const greeting = {
    name: "redis-semaphore", version: versionOf("redis-semaphore"), key: "mutex:R", token: "UUID",
    defaults: {
      ttl_ms: lockTimeout, wait_ms: acquireTimeout, delay_ms: retryInterval, tries: String(acquireAttemptsLimit), drift: "none",
      renews: "every 0.8 of the TTL", ioredis: versionOf("ioredis"),
    },
  };
  await run(greeting, {
    async acquire(resource, ttlMs, waitMs) {
      const options = { lockTimeout: ttlMs, refreshInterval: 0, acquireTimeout: Math.max(1, waitMs) };
      if (waitMs === 0) Object.assign(options, { acquireTimeout: 1000, acquireAttemptsLimit: 1 });
      const mutex = new RedlockMutex(clients, resource, options);
      return (await mutex.tryAcquire()) ? mutex : null;
    },
    token: (mutex) => mutex.identifier,
    release: (mutex) => mutex.release(),
  });
}

main().catch(fail);
