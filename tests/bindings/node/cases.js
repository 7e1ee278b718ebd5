// SPDX-License-Identifier: BSD-2-Clause
//
// What the tests of the package run in a process of their own. usage: node cases.js CASE NODES
'use strict';
const assert = require('assert/strict');
const { once } = require('events');
const fs = require('fs');
const { setTimeout: sleep } = require('timers/promises');
const { Worker, workerData } = require('worker_threads');
const { Client, LockHeld, LockLost, NoQuorum, RedlockError } = require('libredlock');

const TTL = 2000;
const [, , name, nodes] = process.argv;
const say = (text) => fs.writeSync(1, `${text}\n`);
const asyncDispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose');
const heard = () => once(process.stdin, 'data').then(() => process.stdin.unref());

async function until(condition, what) {
  for (const end = performance.now() + 10000; !(await condition()); await sleep(5))
    assert(performance.now() < end, `${what} did not come about`);
}

/** How many descriptors and threads there are. */
const files = () => ['fd', 'task'].map((kind) => fs.readdirSync(`/proc/self/${kind}`).length);

function collected(before) {
  return until(() => {
    globalThis.gc();
    return files().every((count, i) => count <= before[i]);
  }, 'the end of all clients');
}

const cases = {
  async exclusive() {
    const [one, other] = [new Client(nodes), new Client(nodes.split(','))];
    const lock = await one.tryAcquire('tide', { ttl: TTL, owner: 'the first' });
    assert.match(lock.token, /^[0-9a-f]{40}:the first$/);
    assert(lock.held && lock.fence === 0 && lock.slot === 0 && lock.validity > TTL / 2 && lock.validity < TTL);
    assert.equal(await other.tryAcquire('tide'), null);
    await assert.rejects(other.acquire('tide', { wait: 100 }), (error) => error instanceof LockHeld && error.code === 'HELD'
      && error instanceof RedlockError && error.name === 'LockHeld' && error.message === 'tide: held by another');
    const waiting = other.acquire('tide');
    assert.equal(await lock.release(), true);
    const next = await waiting;
    assert(next.held && !lock.held && lock.validity === 0);
    await assert.rejects(lock.extend(), LockLost);
    assert.equal(await lock.release(), true, 'a second release is the first one');
    assert.equal(await one.using(['moon', 'sun'], {}, async (both) => {
      assert.deepEqual(both.resource, ['moon', 'sun']);
      assert.equal(await other.tryAcquire('sun'), null);
      return 42;
    }), 42);
    await assert.rejects(one.using('moon', {}, () => { throw new RangeError('work'); }), RangeError);
    assert(await other.tryAcquire(Buffer.from('moon')));
    await Promise.all([one.close(), other.close()]);
    await assert.rejects(one.acquire('tide'), { code: 'CANCELLED' });
  },

  async extend() {
    const client = new Client(nodes), lock = await client.acquire('tide', { ttl: TTL, renew: false });
    await Promise.all([lock.extend(10000), lock.extend(20000), lock.extend()]);
    assert(lock.validity > 19000, lock.validity);
    await assert.rejects(lock.extend(1), { code: 'BAD_ARGUMENT' });
    await assert.rejects(lock.extend('5000'), TypeError); // and close() below does not wait for it
    const last = lock.extend();
    assert.equal(await lock.release(), true);
    await last.catch(() => {});
    await client.close();
  },

  async kinds() {
    const client = new Client(nodes, { keyPrefix: 'a:' });
    const readers = await Promise.all([1, 2, 3].map(() => client.acquire('book', { shared: true })));
    assert.equal(await client.tryAcquire('book'), null);
    await Promise.all(readers.map((reader) => reader.release()));
    const writer = await client.acquire('book');
    await writer.downgrade();
    assert(await client.tryAcquire('book', { shared: true }));
    const slots = await Promise.all([1, 2].map(() => client.acquire('pool', { slots: 2, owner: 'a/7' })));
    assert.deepEqual(slots.map((lock) => lock.slot).sort(), [1, 2]);
    assert.equal(await client.tryAcquire('pool', { slots: 2 }), null);
    await client.close();
  },

  async wrong() {
    const client = new Client(nodes);
    assert.throws(() => new Client('redis://:not:a:url'), (error) => error.code === 'BAD_ARGUMENT' && /not a URL/.test(error.message));
    assert.throws(() => new Client(nodes, { mode: 'strict' }), { code: 'BAD_ARGUMENT' });
    assert.throws(() => new Client(nodes, { nodeTimeout: '50' }), TypeError);
    assert.throws(() => new Client(nodes, { user: 1 }), TypeError);
    assert.throws(() => new Client('redis://a\0b'), TypeError);
    for (const none of [undefined, '', []]) assert.throws(() => new Client(none), { code: 'BAD_ARGUMENT' });
    for (const options of [{ ttl: '30' }, { wait: NaN }, { wait: -1 }, { wait: '5' }, { owner: 7 }])
      await assert.rejects(client.acquire('tide', options), TypeError);
    for (const options of [{ ttl: 1 }, { ttl: Infinity }, { slots: -1 }, { slots: 0 }, { slots: 1.5 }, { slots: 65 }, { holdMax: -5 }, { holdMax: 0 }])
      await assert.rejects(client.acquire('tide', options), { code: 'BAD_ARGUMENT' });
    for (const resource of [undefined, 5, {}, [5], new Float64Array(3)]) await assert.rejects(client.acquire(resource));
    for (const resource of ['', [], Array(65).fill('a'), 'redlock:node', 'x'.repeat(70000)])
      await assert.rejects(client.acquire(resource), { code: 'BAD_ARGUMENT' });
    await assert.rejects(new Client(nodes, { mode: 'classic' }).observe('tide').next(), { code: 'BAD_ARGUMENT' });
    for (const resource of ['é'.repeat(300), '世'.repeat(84) + 'ab', '世'.repeat(85), 'x'.repeat(255), 'x'.repeat(256), 'x'.repeat(65536), '\0\0']) {
      const lock = await client.acquire(resource);
      assert.equal(await client.tryAcquire(Buffer.from(resource)), null);
      await lock.release();
    }
    const stopped = new AbortController();
    stopped.abort(new RangeError('before'));
    await assert.rejects(client.acquire('tide', { signal: stopped.signal }), RangeError);
    await client.close();
    await client.close();
  },

  /** An acquisition is cancelled at every moment, and leaves nothing. */
  async cancel() {
    const client = new Client(nodes), held = await client.acquire('tide');
    for (let ms = 0; ms < 40; ms++) {
      const stop = new AbortController(), why = new Error('enough');
      const waiting = client.acquire('tide', { signal: stop.signal });
      if (ms > 0) await sleep(ms - 1);
      stop.abort(why);
      await assert.rejects(waiting, why);
    }
    const stop = new AbortController(), warned = [];
    process.on('warning', (warning) => warned.push(warning));
    const many = Array.from({ length: 20 }, () => client.acquire('tide', { signal: stop.signal })); // one signal for all
    stop.abort();
    for (const each of many) await assert.rejects(each, { name: 'AbortError' });
    await sleep(1);
    assert.deepEqual(warned, []);
    await held.release();
    for (let turn = 0; turn < 200; turn++) {
      const stop = new AbortController();
      const taking = client.acquire(`free:${turn}`, { signal: stop.signal });
      setTimeout(() => stop.abort(), Math.random() * 2);
      await taking.then((lock) => {
        assert(!stop.signal.aborted);
        return lock.release();
      }, (error) => assert.equal(error.name, 'AbortError'));
    }
    await assert.rejects(client.acquire('tide', { signal: AbortSignal.abort() }), { name: 'AbortError' });
    const waiting = [client.acquire('tide'), client.acquire('tide'), client.acquire('tide')];
    const first = await Promise.any(waiting);
    const closing = client.close();
    assert.deepEqual((await Promise.allSettled(waiting)).map((each) => each.reason?.code).sort(), ['CANCELLED', 'CANCELLED', undefined]);
    await closing;
    assert.equal(await first.release(), true);
    const other = new Client(nodes);
    for (let turn = 0; turn < 200; turn++) assert(await other.tryAcquire(`free:${turn}`), `free:${turn}`);
    assert(await other.tryAcquire('tide'));
    await other.close();
  },

  /** The test kills servers when this says so. */
  async lost() {
    const client = new Client(nodes), lock = await client.acquire('tide', { ttl: TTL });
    await client.using('read', { ttl: TTL }, async () => {});
    say('held');
    await heard(); // two of five nodes are dead
    await sleep(2 * TTL);
    assert(lock.held && lock.validity > 0 && !lock.signal.aborted);
    say('still held');
    const at = await new Promise((resolve) => {
      lock.signal.addEventListener('abort', () => resolve({ left: lock.validity, now: performance.now() }));
    });
    assert(lock.signal.reason instanceof LockLost && !lock.held, lock.signal.reason);
    say(`lost: ${lock.signal.reason.message}`);
    await assert.rejects(lock.extend(), LockLost);
    await lock[asyncDispose](); // reported already
    await assert.rejects(lock.release(), lock.signal.reason);
    await assert.rejects(client.acquire('tide', { wait: 0 }), NoQuorum);
    await client.close();
  },

  /** Without the signal, the end of the block reports the loss. */
  async lostSilently() {
    const client = new Client(nodes);
    const [lock, forgotten] = await Promise.all(['tide', 'moon'].map((each) => client.acquire(each, { ttl: 200, renew: false })));
    await sleep(300);
    assert(!lock.held && !forgotten.held && lock.signal.aborted);
    const silent = await client.acquire('silent', { ttl: 200, renew: false });
    await sleep(300);
    await assert.rejects(silent[asyncDispose](), LockLost);
    const brief = { ttl: 200, renew: false };
    await assert.rejects(client.using('brief', brief, () => sleep(300)), LockLost);
    await assert.rejects(client.using('brief', brief, async () => { await sleep(300); throw new RangeError('work'); }), RangeError);
    assert.equal(await client.using('brief', brief, async (each) => { await sleep(300); return each.signal.aborted; }), true);
    await assert.rejects(forgotten.release(), LockLost);
    const taking = client.acquire('short', { ttl: 100, renew: false });
    await new Promise(process.nextTick); // it has begun
    for (const end = performance.now() + 300; performance.now() < end;);
    const short = await taking; // acquired and lost while the event loop was busy
    assert(!short.held && short.validity === 0 && short.signal.reason instanceof LockLost);
    await assert.rejects(short.release(), LockLost);
    const late = await client.acquire('late', { ttl: 200, renew: false, lostMargin: 100 });
    await once(late.signal, 'abort');
    await client.close();
    await assert.rejects(late.release(), LockLost);
  },

  async guarded() {
    const [client, other] = [new Client(nodes, { recover: true }), new Client(nodes)];
    let fence = 0;
    for (let turn = 0; turn < 5; turn++) {
      await (turn % 2 ? client : other).using('tide', {}, (lock) => {
        assert(lock.fence > fence && Number.isSafeInteger(lock.fence), `${lock.fence} after ${fence}`);
        fence = lock.fence;
      });
    }
    const seen = [], stop = new AbortController();
    const watching = (async () => {
      for await (const leader of other.observe('chair', { signal: stop.signal })) seen.push(leader);
    })();
    const lead = await client.elect('chair', { id: 'me', ttl: TTL });
    const known = () => seen.find((leader) => leader.state === 'known');
    await until(known, 'a known leader');
    assert.deepEqual([known().term, known().id], [lead.fence, 'me']);
    assert(known().sure > 0 && known().sure <= TTL);
    await lead.release();
    await until(() => seen.at(-1).state === 'none', 'no leader');
    stop.abort();
    await assert.rejects(watching, { name: 'AbortError' });
    const more = other.observe('chair');
    assert.equal((await more.next()).done, false);
    await Promise.all([client.close(), other.close()]); // while the consumer is busy
    assert.equal((await more.next()).done, true);
  },

  async exit() { // with a lock in hand
    const client = new Client(nodes), lock = await client.acquire('tide', { ttl: 60000 });
    process.on('exit', () => { if (lock.held) process.exitCode = 4; });
    process.exit(3);
  },

  async idle() { // an idle client does not keep the process
    const client = new Client(nodes);
    await client.using('tide', {}, () => {});
    process.on('exit', () => say('idle'));
    globalThis.kept = [client, new Client(nodes)];
  },

  async unref() {
    const client = new Client(nodes).unref();
    globalThis.kept = [client, await Promise.all([client.acquire('tide'), sleep(1000)])];
    process.on('exit', () => say('unref'));
  },

  async held() { // a lock that is held does
    const client = new Client(nodes);
    await client.acquire('tide');
    say('held');
  },

  /** The event loop stands still for several TTLs. */
  async busy() {
    const client = new Client(nodes), lock = await client.acquire('tide', { ttl: 500 });
    for (const end = performance.now() + 2500; performance.now() < end;);
    assert(lock.validity > 0);
    await sleep(50);
    assert(lock.held && !lock.signal.aborted);
    await client.close();
  },

  /** The threads of libuv's pool are all taken, and node's own OpenSSL works. UV_THREADPOOL_SIZE is 1. */
  async pool() {
    const crypto = require('crypto');
    const client = new Client(nodes);
    let hashing = true;
    const hash = new Promise((resolve) => crypto.pbkdf2('a', 'b', 15e5, 64, 'sha512', resolve)).then(() => { hashing = false; });
    for (let turn = 0; turn < 10; turn++) await client.using('tide', {}, () => {});
    assert(hashing, 'the pool was free: nothing is shown');
    await hash;
    await client.close();
  },

  /** One node of three has stopped. */
  async stopped() {
    const { monitorEventLoopDelay } = require('perf_hooks');
    const delay = monitorEventLoopDelay({ resolution: 1 });
    const client = new Client(nodes);
    await client.using('tide', {}, () => {});
    say('connected');
    await heard();
    delay.enable();
    for (let turn = 0; turn < 5; turn++) await client.using('tide', {}, () => {});
    const lock = await client.acquire('moon');
    const work = delay.max / 1e6;
    await client.close();
    await sleep(2);
    assert.equal(lock.held, false);
    say(`blocked for ${Math.round(work)} and ${Math.round(delay.max / 1e6)} ms`);
    assert(delay.max < 150e6, `${delay.max / 1e6} ms`);
  },

  async tls() {
    const crypto = require('crypto');
    const ca = process.env.CA;
    const before = crypto.createHash('sha256').update('a').digest('hex');
    const client = new Client(nodes, { tlsCaFile: ca });
    await Promise.all(Array.from({ length: 50 }, (_, i) => client.using(`tide:${i}`, {}, () => {})));
    const strange = new Client(nodes); // of an authority that it does not know
    await assert.rejects(strange.acquire('tide', { wait: 500 }), /certificate was refused/);
    await strange.close();
    const { connect } = require('tls');
    await new Promise((resolve, reject) => {
      const { hostname, port } = new URL(nodes.split(',')[0]);
      const socket = connect({ host: hostname, port, ca: fs.readFileSync(ca) }, () => socket.end('PING\r\n'));
      socket.once('data', (data) => { assert.match(String(data), /PONG/); resolve(); }).once('error', reject);
    });
    assert.equal(crypto.createHash('sha256').update('a').digest('hex'), before);
    assert(fs.readFileSync('/proc/self/maps', 'utf8').includes('libssl.so.3'));
    await client.close();
  },

  async workers() {
    const count = new Int32Array(new SharedArrayBuffer(8));
    const all = Array.from({ length: 3 }, () => new Worker(__filename, { argv: ['worker', nodes], workerData: { count } }));
    await Promise.all(all.map((worker) => new Promise((resolve, reject) => worker.once('exit', (status) => (status ? reject(new Error(`status ${status}`)) : resolve())).once('error', reject))));
    assert.equal(count[0], 3 * 20);
    for (let turn = 0; turn < 5; turn++) { // one that ends in the middle of its work releases what it holds
      const holder = new Worker(__filename, { argv: ['workerHolds', nodes], workerData: {} });
      await new Promise((resolve) => { holder.once('message', resolve); });
      await holder.terminate();
    }
    const client = new Client(nodes);
    assert(await client.acquire('tide', { wait: 5000 }));
    await client.close();
  },

  async worker() {
    const client = new Client(nodes), { count } = workerData;
    for (let turn = 0; turn < 20; turn++) {
      await client.using('count', {}, async () => {
        const value = count[0];
        await sleep(1);
        count[0] = value + 1;
      });
    }
    await client.close();
  },

  async workerHolds() {
    const client = new Client(nodes);
    await client.acquire('tide', { ttl: 60000, wait: 10000 });
    client.acquire('tide').catch(() => {});
    client.observe('tide').next().catch(() => {});
    require('worker_threads').parentPort.postMessage('held');
    await new Promise(() => {});
  },

  /** A callback that throws is an uncaught exception, and nothing else is harmed. */
  async raise() {
    const client = new Client(nodes), raised = [];
    process.on('uncaughtException', (error) => raised.push(error.message));
    const lock = await client.acquire('tide', { ttl: 200, renew: false });
    lock.signal.addEventListener('abort', () => { throw new Error('in a listener'); });
    await sleep(300);
    assert.deepEqual(raised, ['in a listener']);
    await client.using('tide', {}, () => {});
    await client.close();
  },

  /** Clients that nobody closes, locks that nobody releases. */
  async collect() {
    const before = files();
    const use = async (turn) => {
      const client = new Client(nodes), lock = await client.acquire(`tide:${turn}`, { ttl: 100, renew: false });
      assert(lock.signal);
      if (turn % 3 === 0) await lock.release();
      if (turn % 4 === 1) client.acquire(`tide:${turn}`, { ttl: 100, wait: 50, renew: false }).catch(() => {});
    };
    for (let turn = 0; turn < 20; turn++) {
      await use(turn);
      if (turn % 2) globalThis.gc();
    }
    await collected(before);
  },

  /** Locks come and go, and their memory with them: 60000 take 36 MiB. */
  async churn() {
    const client = new Client(nodes), native = () => (process.memoryUsage().rss - process.memoryUsage().heapTotal) / 2 ** 20;
    const cycles = (count) => Promise.all(Array.from({ length: 100 }, async (_, i) => {
      for (let turn = 0; turn < count / 100; turn++) await client.using(`tide:${i}`, {}, () => {});
    }));
    await cycles(5000);
    const before = native();
    await cycles(60000);
    assert(native() - before < 12, `${native() - before} MiB`);
    say(`${native() - before} MiB`);
    await client.close();
  },

  async soak() {
    const end = performance.now() + Number(process.env.REDLOCK_SOAK_S ?? 5) * 1000, before = files(), memory = [];
    while (performance.now() < end) {
      await Promise.all([1, 2, 3].map(() => soakClient(Math.min(end, performance.now() + 400))));
      memory.push(process.memoryUsage().rss >> 20);
    }
    say(`MiB: ${memory}`);
    await collected(before);
    const half = memory.length >> 1;
    assert(Math.min(...memory.slice(half)) <= Math.max(...memory.slice(0, half)) * 1.1 + 8, 'it grows');
  },
};

async function soakClient(end) {
  const client = new Client(nodes), random = (below) => Math.floor(Math.random() * below);
  const one = async () => {
    while (performance.now() < end) {
      const stop = new AbortController();
      const options = { ttl: 1000, signal: stop.signal, shared: random(8) === 0, wait: random(3) ? 300 : 0, renew: random(2) === 0 };
      if (random(3) === 0) setTimeout(() => stop.abort(), random(10));
      try {
        const lock = await client.acquire(random(4) ? `soak:${random(12)}` : [`soak:${random(12)}`, 'soak:x'].slice(0, 1 + random(2) * !options.shared), options);
        const { signal } = lock;
        if (random(4) === 0) await lock.extend();
        if (random(4) === 0) await sleep(random(10));
        if (options.renew || random(20)) await lock.release(); // one that is renewed is held until then
        assert(signal !== undefined);
      } catch (error) {
        if (!(error instanceof RedlockError) && error.name !== 'AbortError') throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: 16 }, one));
  if (random(3)) await client.close();
  else if (random(2)) client.close();
}

process.exitCode = 99; // one that waits for ever ends too, when nothing keeps the process
cases[name]().then(() => { process.exitCode = 0; }, (error) => {
  console.error(error);
  process.exit(1);
});
