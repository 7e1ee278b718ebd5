// SPDX-License-Identifier: BSD-2-Clause
/// <reference lib="esnext.disposable" />

/** All durations are in milliseconds. */
export interface ClientOptions {
  /** 'auto' (default): guarded if the nodes carry a record, else classic. */
  mode?: 'auto' | 'classic' | 'guarded';
  /** How long a try waits for a node. Default: a twentieth of the TTL, 5 to 50. */
  nodeTimeout?: number;
  /** For connect, TLS and login together. Default: 1000. */
  connectTimeout?: number;
  /** A connection with an answer overdue this long is reset. Default: 5000. */
  stallTimeout?: number;
  /** Key = prefix + resource. */
  keyPrefix?: string | Uint8Array;
  /** PEM files for rediss:// URLs. Default: the system's certificates, and none of the client's own. */
  tlsCaFile?: string;
  tlsCertFile?: string;
  tlsKeyFile?: string;
  /** The name to send and to verify. Default: the host in the URL. */
  tlsServerName?: string;
  /** The login at nodes whose URL has no password. The file is read for each connection. */
  user?: string;
  passwordFile?: string;
  /** Guarded: the quorum's id, 16 hex digits. */
  quorum?: string;
  /** Guarded: ask a majority once more before a lock counts. */
  confirm?: boolean;
  /** Guarded: help nodes that lost their data to return. Default: false. */
  recover?: boolean;
  /** Guarded: accept masters that have replicas. Default: false. */
  allowReplicas?: boolean;
}

export interface LockOptions {
  /** Default: 30000. */
  ttl?: number;
  /** How long to try. 0: once. Default: Infinity. */
  wait?: number;
  /** Ends the acquisition, which rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Renew until released or lost. Default: true. */
  renew?: boolean;
  /** A shared (read) lock. */
  shared?: boolean;
  /** One of so many slots of a semaphore, 1 to 64. */
  slots?: number;
  /** Shown by `redlock show`; at most 128 bytes. */
  owner?: string | Uint8Array;
  /** Validity ends at most this long after the acquisition. */
  holdMax?: number;
  /** A loss is reported this long before validity ends. Default: a tenth of the TTL, at most 1000. */
  lostMargin?: number;
}

export type Resource = string | Uint8Array;

/** A lock that is held, or was. */
export class Lock implements AsyncDisposable {
  private constructor();
  /** Several: all are held, or none. */
  readonly resource: Resource | readonly Resource[];
  readonly held: boolean;
  /** The fencing token of guarded mode, which grows with each grant; a leader's term. 0: classic mode. */
  readonly fence: number;
  readonly token: string;
  /** Which slot it is, from 1. 0: it has no slots. */
  readonly slot: number;
  /** For how many milliseconds the lock is still surely yours. */
  readonly validity: number;
  /** Aborted with a LockLost when the lock is lost, before its validity ends. */
  readonly signal: AbortSignal;
  /** Makes validity at least the TTL, or `ttl`. Rejects with LockLost; or with NoQuorum: the lock is still held for `validity`. */
  extend(ttl?: number): Promise<void>;
  /** An exclusive lock becomes a shared one, without a gap. */
  downgrade(): Promise<void>;
  /** True: a majority of the nodes deleted the keys. False: too few answered; what is left ends with the TTL. Rejects with LockLost. */
  release(): Promise<boolean>;
  /** Releases it. Rejects with LockLost, unless `signal` has reported the loss. */
  [Symbol.asyncDispose](): Promise<void>;
}

export interface Leader {
  /** 'unknown': too few nodes answer. 'none': nobody leads. */
  state: 'unknown' | 'none' | 'known';
  /** The fence of its lock. Each later leader has a higher one. */
  term: number;
  id: string;
  /** For so many milliseconds no other client leads, unless this one resigns. */
  sure: number;
}

/** Connects to 1 to 15 nodes. It keeps the process alive while a lock is held or an operation is under way. */
export class Client implements AsyncDisposable {
  /**
   * URLs: redis://[user:password@]host[:port][/db], rediss:// (TLS), unix:///path. Connects in the background. Without nodes:
   * those of REDLOCK_NODES or redlock.conf, which then also has the options that are not given: redlock.conf(5).
   */
  constructor(nodes?: string | readonly string[], options?: ClientOptions);
  acquire(resource: Resource | readonly Resource[], options?: LockOptions): Promise<Lock>;
  /** One try. Null: another client has it. */
  tryAcquire(resource: Resource | readonly Resource[], options?: Omit<LockOptions, 'wait'>): Promise<Lock | null>;
  /** Holds the lock while `work` runs, and returns what it returns. Rejects as `work` does, or with LockLost, unless `signal` has reported the loss. */
  using<T>(resource: Resource | readonly Resource[], options: LockOptions, work: (lock: Lock) => T | Promise<T>): Promise<T>;
  /** Guarded: waits until this client leads. `lock.fence` is the term; to resign, release the lock. */
  elect(resource: Resource, options?: Omit<LockOptions, 'owner' | 'shared' | 'slots'> & { id?: string }): Promise<Lock>;
  /** Guarded: who leads, now and after each change. An abort of `signal` ends it also while it waits. */
  observe(resource: Resource, options?: { signal?: AbortSignal }): AsyncGenerator<Leader, void, void>;
  /** Whether locks and operations keep the process alive. They do. */
  ref(): this;
  unref(): this;
  /** Cancels acquisitions, releases locks and ends observations. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** `code` is 'HELD', 'NO_QUORUM', 'LOST', 'BAD_ARGUMENT', ...: redlock.h lists them without REDLOCK_. */
export class RedlockError extends Error {
  protected constructor();
  readonly code: string;
  /** What to do: a command or a setting. */
  readonly cure?: string;
}
/** Another client has the lock. */
export class LockHeld extends RedlockError {}
/** Too few nodes answered. */
export class NoQuorum extends RedlockError {}
/** The lock is not, or no longer, ours. */
export class LockLost extends RedlockError {}

/** Of the library. */
export const version: string;
