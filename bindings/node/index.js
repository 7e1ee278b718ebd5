// SPDX-License-Identifier: BSD-2-Clause
//
// The package libredlock; index.d.ts documents it. addon.c has the calls, and this file makes promises of what they
// report. What begins in one turn of the event loop begins together, so that its requests leave in one write to each node.
'use strict';
const { setMaxListeners } = require('node:events');
const native = require('./load.js');

const OK = 0, HELD = -1, NO_QUORUM = -2, LOST = -4, CANCELLED = -5, BAD_ARGUMENT = -6;
const DONE = 0, EXTENDED = 1; // the kinds of events; and a loss
const FOREVER = -1, RELEASE = undefined; // instead of how long to wait
const MODES = { classic: 0, guarded: 1, auto: 2 };
const LEADER_STATES = ['unknown', 'none', 'known'];
const asyncDispose = Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose'); // before Node 18.18

class RedlockError extends Error {
  constructor(result, sentence, cure) {
    super(sentence);
    this.name = this.constructor.name;
    this.code = native.results[-result];
    if (cure) this.cure = cure;
  }
}
class LockHeld extends RedlockError {}
class NoQuorum extends RedlockError {}
class LockLost extends RedlockError {}

const CLASSES = { [HELD]: LockHeld, [NO_QUORUM]: NoQuorum, [LOST]: LockLost };

function failure(result, sentence, cure) {
  return new (CLASSES[result] ?? RedlockError)(result, sentence, cure);
}

/** The addon answers [result, sentence] where it fails. */
function check(made) {
  if (Array.isArray(made)) throw failure(...made);
  return made;
}

// Those that hold or do something. They are not collected, and when the process ends they release what they hold.
const active = new Set();
process.on('exit', () => active.forEach((session) => {
  native.close(session.handle);
  for (const entry of session.entries) if (entry) entry.held = false;
}));

/** What a client and its locks share. */
class Session {
  // the addon's reference to it is weak
  dispatch = (number, kind, result) => this.entries[number]?.on(kind, result);
  entries = []; // by number: locks and observers
  count = 0; // how many things are held or under way
  kept = true; // they keep the event loop alive
  due = new Map(); // what begins at the end of this turn, by how long it waits
  closing = undefined;

  constructor(nodes, options) {
    this.handle = check(native.open(nodes, options, this.dispatch));
  }

  busy(by) {
    this.count += by;
    if (this.count === by) {
      active.add(this);
      native.keep(this.handle, this.kept);
    } else if (this.count === 0) {
      active.delete(this);
      native.keep(this.handle, false);
      this.idle?.();
    }
  }

  keep(kept) {
    this.kept = kept;
    native.keep(this.handle, kept && this.count > 0);
  }

  begin(entry, wait) {
    if (this.due.size === 0) process.nextTick(() => this.beginAll());
    const group = this.due.get(wait);
    if (group) group.push(entry); else this.due.set(wait, [entry]);
  }

  beginAll() {
    const { due } = this;
    this.due = new Map();
    for (const [wait, entries] of due) {
      for (const entry of entries) if (entry.stopped && wait !== RELEASE) entry.on(DONE, CANCELLED);
      const numbers = new Uint32Array(entries.length);
      let count = 0;
      for (const entry of entries) if (entry.settle) numbers[count++] = entry.number;
      native.start(this.handle, numbers, count, wait);
    }
  }

  check() {
    if (this.closing) throw failure(CANCELLED, 'the client is closed');
  }

  close() { return this.closing ??= this.end(); }

  async end() {
    for (const entry of this.entries) entry?.end();
    if (this.count > 0) await new Promise((resolve) => { this.idle = resolve; });
    native.close(this.handle);
    for (const entry of this.entries) if (entry) entry.number = -1; // a lost one that nobody has released
  }
}

/** A lock from its acquisition to its release. */
class Entry {
  held = false;
  fence = 0;
  slot = 0;
  token = '';
  stopped = false;
  gone = false; // lost; the addon may report it before the acquisition, if the event loop was busy
  lost = undefined; // the error
  controller = undefined; // of its signal
  settle = undefined; // takes the result of the acquisition or release that is under way
  settleExtension = undefined;
  extension = undefined; // the last one
  ending = undefined;

  constructor(session, name, { ttl, renew, shared, slots, leader, holdMax, lostMargin, owner }) {
    this.session = session;
    this.name = name;
    const names = Array.isArray(name) ? name : [name];
    this.number = check(native.lock(session.handle, names, ttl, renew, shared, slots, leader, holdMax, lostMargin, owner));
    session.entries[this.number] = this;
  }

  error(result) {
    const [sentence, cure] = native.why(this.session.handle, this.number, result);
    const names = [this.name].flat().map((name) => (typeof name === 'string' ? name : Buffer.from(name).toString()));
    return failure(result, `${names.join(', ')}: ${sentence}`, cure);
  }

  run(wait, settle) {
    this.settle = settle;
    this.session.begin(this, wait);
  }

  on(kind, result) {
    if (kind === DONE) {
      const { settle } = this;
      this.settle = undefined;
      settle(result);
      if (this.ending || result !== OK) return this.session.busy(-1);
      this.held = true;
      [this.token, this.fence, this.slot] = native.grant(this.session.handle, this.number);
    } else if (kind === EXTENDED) {
      this.endExtension(result);
    } else {
      this.gone = true;
    }
    if (this.held && this.gone) this.lose();
  }

  /** What is left of it stays until its validity has ended, unless it is released: the holder may still be stopping. */
  lose() {
    this.lost = this.error(LOST);
    this.held = false;
    setTimeout(() => { if (!this.ending) this.free(); }, native.validity(this.session.handle, this.number)).unref();
    this.controller?.abort(this.lost);
    this.session.busy(-1);
  }

  stop() {
    this.stopped = true;
    native.cancel(this.session.handle, this.number);
  }

  endExtension(result) {
    const settle = this.settleExtension;
    this.settleExtension = undefined;
    settle?.(result);
  }

  free() {
    if (this.number < 0) return;
    this.endExtension(CANCELLED);
    native.free(this.session.handle, this.number);
    this.session.entries[this.number] = undefined;
    this.number = -1;
  }

  /** Each promise more on the way of a usual lock costs the event loop time. */
  acquire(wait, signal) {
    return new Promise((resolve) => {
      const settle = signal ? this.stoppedBy(signal, resolve) : resolve;
      this.session.busy(1);
      this.run(wait, settle);
    });
  }

  /** Until it is settled, the signal stops it. */
  stoppedBy(signal, settle) {
    const stop = () => this.stop();
    if (signal instanceof AbortSignal) setMaxListeners(0, signal); // one signal ends many waits
    signal.addEventListener('abort', stop);
    return (result) => {
      signal.removeEventListener('abort', stop);
      settle(result);
    };
  }

  /** Why there is no lock; it is freed. */
  async refusal(result, signal) {
    const error = signal?.aborted ? signal.reason : this.error(result === OK ? CANCELLED : result);
    if (result === OK) await this.release().catch(() => {});
    this.free();
    return error;
  }

  /** One at a time. */
  extend(start) {
    const extended = (this.extension ?? Promise.resolve()).then(() => this.runExtension(start));
    this.extension = extended.catch(() => {});
    return extended;
  }

  async runExtension(start) {
    if (!this.held) throw this.lost ?? failure(LOST, `${this.name}: it is released`);
    const started = start(this.session.handle, this.number); // throws for a wrong type
    this.session.busy(1);
    const result = started !== OK ? started : await new Promise((resolve) => { this.settleExtension = resolve; });
    this.session.busy(-1);
    if (result !== OK) throw this.lost ?? this.error(result);
  }

  release() { return this.ending ??= this.beginRelease(); }

  beginRelease() {
    if (this.number < 0) return Promise.reject(this.lost);
    if (!this.held) this.session.busy(1);
    this.held = false;
    return this.extension ? this.extension.then(() => this.runRelease()) : this.runRelease();
  }

  runRelease() {
    return new Promise((resolve, reject) => {
      this.run(RELEASE, (result) => {
        if (result === LOST) this.lost ??= this.error(LOST);
        this.free();
        if (this.lost) reject(this.lost); else resolve(result === OK);
      });
    });
  }

  /** The client is closed. */
  end() {
    if (this.held) this.release().catch(() => {});
    else if (!this.ending) this.stop();
  }
}

class Lock {
  #entry;

  constructor(entry) { this.#entry = entry; }

  get resource() { return this.#entry.name; }
  get held() { return this.#entry.held; }
  get fence() { return this.#entry.fence; }
  get token() { return this.#entry.token; }
  get slot() { return this.#entry.slot; }
  get validity() { return this.#entry.held ? native.validity(this.#entry.session.handle, this.#entry.number) : 0; }

  get signal() {
    const entry = this.#entry;
    if (!entry.controller) {
      entry.controller = new AbortController();
      if (entry.lost) entry.controller.abort(entry.lost);
    }
    return entry.controller.signal;
  }

  extend(ttl) { return this.#entry.extend((handle, number) => native.extend(handle, number, ttl)); }
  downgrade() { return this.#entry.extend(native.downgrade); }
  release() { return this.#entry.release(); }

  async [asyncDispose]() {
    const reported = this.#entry.controller?.signal.aborted;
    await this.release().catch((error) => { if (!reported) throw error; });
  }
}

/** Of a resource's leader. Only the newest state is kept for a consumer that is slow. */
class Observer {
  changed = false;
  wake = () => {};

  constructor(session, resource) {
    this.session = session;
    this.number = check(native.observe(session.handle, resource));
    session.entries[this.number] = this;
    session.busy(1);
  }

  on() {
    this.changed = true;
    this.wake();
  }

  next() {
    this.changed = false;
    const [state, term, id, sure] = native.leader(this.session.handle, this.number);
    return { state: LEADER_STATES[state], term, id, sure };
  }

  end() {
    if (this.number < 0) return;
    native.free(this.session.handle, this.number);
    this.session.entries[this.number] = undefined;
    this.number = -1;
    this.wake();
    this.session.busy(-1);
  }
}

class Client {
  #session;

  constructor(nodes, options = {}) {
    const mode = options.mode === undefined ? undefined : MODES[options.mode];
    if (mode === undefined && options.mode !== undefined)
      throw failure(BAD_ARGUMENT, `mode: '${options.mode}' is not 'classic', 'guarded' or 'auto'`);
    this.#session = new Session(Array.isArray(nodes) ? nodes.join(',') : nodes, { ...options, mode });
  }

  async acquire(resource, options) {
    options ??= {};
    const { signal, slots, holdMax, wait = Infinity } = options;
    if (typeof wait !== 'number' || !(wait >= 0)) throw new TypeError('wait: a number of milliseconds, 0 or more, is expected');
    if (holdMax !== undefined && !(holdMax > 0))
      throw failure(BAD_ARGUMENT, 'holdMax: a number of milliseconds above 0 is expected'); // the library takes 0 as no limit
    if (slots !== undefined && !(Number.isInteger(slots) && slots > 0)) throw failure(BAD_ARGUMENT, 'slots: a whole number from 1 to 64 is expected');
    signal?.throwIfAborted();
    this.#session.check();
    const entry = new Entry(this.#session, resource, options);
    const result = await entry.acquire(wait === Infinity ? FOREVER : wait, signal);
    if (result === OK && !entry.stopped) return new Lock(entry);
    throw await entry.refusal(result, signal);
  }

  async tryAcquire(resource, options) {
    try {
      return await this.acquire(resource, { ...options, wait: 0 });
    } catch (error) {
      if (error instanceof LockHeld) return null;
      throw error;
    }
  }

  async using(resource, options, work) {
    const lock = await this.acquire(resource, options);
    let made;
    try {
      made = await work(lock);
    } catch (error) {
      await lock.release().catch(() => {}); // the error of `work` says more than that of a loss
      throw error;
    }
    await lock[asyncDispose]();
    return made;
  }

  elect(resource, { id, ...options } = {}) {
    return this.acquire(resource, { ...options, owner: id, leader: true });
  }

  async *observe(resource, { signal } = {}) {
    signal?.throwIfAborted();
    this.#session.check();
    const observer = new Observer(this.#session, resource);
    const wake = () => observer.wake();
    signal?.addEventListener('abort', wake);
    try {
      while (observer.number >= 0) {
        if (observer.changed) yield observer.next();
        else await new Promise((resolve) => { observer.wake = resolve; });
        signal?.throwIfAborted();
      }
    } finally {
      signal?.removeEventListener('abort', wake);
      observer.end();
    }
  }

  ref() { this.#session.keep(true); return this; }
  unref() { this.#session.keep(false); return this; }
  close() { return this.#session.close(); }
  [asyncDispose]() { return this.close(); }
}

module.exports = { Client, Lock, RedlockError, LockHeld, NoQuorum, LockLost, version: native.version };
