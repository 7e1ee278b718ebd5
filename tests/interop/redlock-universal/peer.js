// SPDX-License-Identifier: BSD-2-Clause
//
// redlock-universal's lock on one server, on one of the clients that it supports: its defaults, but for the times. ../README.md has
// the protocol. usage: node peer.js ioredis|node-redis|glide URL
"use strict";
const { fail, packages, run, sleep, versionOf } = require("../speaking.js");
const { createLock, DEFAULTS, GlideAdapter, IoredisAdapter, NodeRedisAdapter } = packages("redlock-universal");

const connects = {
  async ioredis(url) {
    const { Redis } = packages("ioredis");
    const client = new Redis(url);
    client.on("error", () => {}); // a server that is away is told of again and again
    await client.ping();
    return new IoredisAdapter(client);
  },
  async "node-redis"(url) {
    const client = packages("redis").createClient({ url });
    client.on("error", () => {});
    await client.connect();
    return new NodeRedisAdapter(client);
  },
  async glide(url) {
    const { hostname, port } = new URL(url);
    const { GlideClient, Logger } = packages("@valkey/valkey-glide");
    Logger.init("off"); // its log goes to standard output, which is the protocol's
    return new GlideAdapter(await GlideClient.createClient({ addresses: [{ host: hostname, port: Number(port) }] }));
  },
};
const packageOf = { ioredis: "ioredis", "node-redis": "redis", glide: "@valkey/valkey-glide" };

async function main() {
  const [client, url] = process.argv.slice(2);
  const adapter = await connects[client](url);
  const greeting = {
    name: "redlock-universal", version: versionOf("redlock-universal"), key: "R", token: "32 hex digits",
    defaults: { ttl_ms: DEFAULTS.TTL, tries: DEFAULTS.RETRY_ATTEMPTS + 1, delay_ms: DEFAULTS.RETRY_DELAY, drift: "none",
                [client]: versionOf(packageOf[client]) },
  };
  const lockOf = (resource, ttlMs, waitMs) => createLock({ adapter, key: resource, ttl: ttlMs, retryDelay: 50,
                                                           retryAttempts: Math.floor(waitMs / 50), circuitBreaker: false });
  await run(greeting, {
    async acquire(resource, ttlMs, waitMs) {
      const lock = lockOf(resource, ttlMs, waitMs);
      return { lock, handle: await lock.acquire() };
    },
    token: ({ handle }) => handle.value,
    async extend({ lock, handle }, ttlMs) {
      if (!(await lock.extend(handle, ttlMs))) throw new Error("extend() is false");
    },
    async release({ lock, handle }) {
      if (!(await lock.release(handle))) throw new Error("release() is false");
    },
    hold: (resource, ttlMs, holdMs) =>
      lockOf(resource, ttlMs, 0).using(async (signal) => {
        await sleep(holdMs);
        if (signal.aborted) throw signal.error || new Error("the lock was lost");
      }),
  });
}

main().catch(fail);
