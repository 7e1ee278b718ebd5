// SPDX-License-Identifier: BSD-2-Clause
//
// The protocol of README.md for peers in JavaScript: a peer says how it takes, extends and releases a lock. Packages are
// those of the directory it is started in.
"use strict";
const fs = require("fs");
const { createRequire } = require("module");
const path = require("path");
const readline = require("readline");
const { setTimeout: sleep } = require("timers/promises");

const packages = createRequire(path.join(process.cwd(), "x.js"));
const versionOf = (name) => JSON.parse(fs.readFileSync(`node_modules/${name}/package.json`)).version.replace(/^v/, "");

const say = (told) => fs.writeSync(1, JSON.stringify(told) + "\n");

// Not atomic on purpose: whoever looks meanwhile finds it empty.
async function turn(file) {
  const text = fs.readFileSync(file, "ascii");
  if (!/^[0-9]+$/.test(text)) throw new Error(`the counter is "${text}"`);
  await sleep(2);
  fs.writeFileSync(file, String(Number(text) + 1));
}

async function count(peer, resource, file, seconds, ttlMs) {
  const told = { turns: 0, failed: 0 };
  const end = Date.now() + Number(seconds) * 1000;
  for (let left; (left = end - Date.now()) > 0; ) {
    const lock = await peer.acquire(resource, Number(ttlMs), left).catch(() => null);
    if (!lock) {
      told.failed++;
      await sleep(10);
      continue;
    }
    await turn(file);
    told.turns++;
    // It has counted, whether or not all nodes know that it is over.
    await peer.release(lock).catch((error) => console.error(error.message));
  }
  return told;
}

// A peer has acquire(resource, ttlMs, waitMs), which gives the lock, or null, or throws; token(lock), extend(lock, ttlMs), which may be
// absent; release(lock); and, if it renews by itself, hold(resource, ttlMs, holdMs), which throws if the lock is lost meanwhile.
async function obey(peer, locks, [command, resource, ...more]) {
  if (command === "count") return count(peer, resource, ...more);
  if (command === "acquire") {
    const lock = await peer.acquire(resource, Number(more[0]), Number(more[1]));
    if (!lock) return { ok: false, why: "held by another" };
    locks.set(resource, lock);
    return { ok: true, token: peer.token(lock) };
  }
  if (command === "hold") {
    await peer.hold(resource, Number(more[0]), Number(more[1]) * 1000);
    return { ok: true };
  }
  if (command === "extend" && !peer.extend) return { unsupported: true };
  if (command === "extend") locks.set(resource, (await peer.extend(locks.get(resource), Number(more[0]))) || locks.get(resource));
  else await peer.release(locks.get(resource));
  return { ok: true };
}

async function run(greeting, peer) {
  const locks = new Map();
  say({ ready: true, ...greeting });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    if (line === "quit") break;
    const failed = (error) => ({ ok: false, why: `${error.name}: ${error.message}` });
    // A counter that cannot be read is no matter of the client's: that ends the program.
    const answer = obey(peer, locks, line.split(" "));
    say(await (line.startsWith("count") ? answer : answer.catch(failed)));
  }
  process.exit(0);
}

function fail(error) {
  console.error(error.stack);
  process.exit(1);
}

module.exports = { fail, packages, run, sleep, versionOf };
