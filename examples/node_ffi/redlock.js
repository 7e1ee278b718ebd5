// SPDX-License-Identifier: BSD-2-Clause
'use strict';
// libredlock by koffi, an FFI package with binaries for the usual platforms: nothing is compiled. bindings.md has the
// rules. The library's service thread renews, so that a busy event loop does not lose the lock. No callback is given to it:
// koffi runs callbacks of other threads on the main thread and lets the other one wait, so a busy loop would hold up the
// renewals, and a call that waits for a callback would wait for ever. What there is to tell is asked for, often enough:
// these questions cost no round trip.
const koffi = require('koffi');

const OK = 0, HELD = -1, LOST_STATE = 4;
const UNSURE_STATE = 3;

const library = koffi.load(process.env.REDLOCK_LIBRARY || 'libredlock.so.0');

// As it was when this was written; a later library may know more fields, and is told how many these are.
koffi.struct('redlock_lock_options', {
    size: 'size_t', ttl_ms: 'int64_t', validity_ms_min: 'int64_t', renew: 'int', renew_interval_ms: 'int64_t',
    hold_ms_max: 'int64_t', renew_count_max: 'uint32_t', lost_margin_ms: 'int64_t', retry_count_max: 'uint32_t',
    retry_delay_ms_min: 'int64_t', retry_delay_ms_max: 'int64_t', owner: 'const char *', owner_bytes: 'size_t',
    on_change: 'void *', on_change_context: 'void *', leader: 'int', slots: 'uint32_t', shared: 'int',
});
koffi.struct('redlock_error', { result: 'int', text: koffi.array('char', 512, 'String') });

const clientOpen = library.func('int redlock_client_open(const char *nodes, const void *options, _Out_ void **client, _Out_ redlock_error *error)');
const clientFree = library.func('void redlock_client_free(void *client)');
const optionsFill = library.func('void redlock_lock_options_fill(_Out_ redlock_lock_options *options, size_t size)');
const lockNew = library.func('int redlock_lock_new(void *client, const char *resource, size_t bytes, const redlock_lock_options *options, _Out_ void **lock, _Out_ redlock_error *error)');
const lockFree = library.func('void redlock_lock_free(void *lock)');
const acquire = library.func('int redlock_acquire(void *lock, int64_t wait_ms)');
const cancel = library.func('void redlock_cancel(void *lock)');
const release = library.func('int redlock_release(void *lock)');
const lockState = library.func('int redlock_lock_state(void *lock)');
const validityMs = library.func('int64_t redlock_validity_ms(void *lock)');
const resultText = library.func('const char *redlock_result_text(int result)');

function check(result, error) {
    if (result !== OK) throw new Error(error.text || resultText(result));
}

/** Blocking calls run on koffi's worker threads. */
function away(call, ...words) {
    return new Promise((done, failed) => {
        call.async(...words, (error, result) => (error ? failed(error) : done(result)));
    });
}

class Client {
    constructor(nodes) {
        const made = [null], error = {};
        check(clientOpen(nodes, null, made, error), error);
        this.pointer = made[0];
    }

    /** After its locks. */
    free() {
        return away(clientFree, this.pointer);
    }
}

class Lock {
    constructor(client, resource, wanted = {}) {
        const options = {}, made = [null], error = {};
        optionsFill(options, koffi.sizeof('redlock_lock_options'));
        Object.assign(options, wanted);
        check(lockNew(client.pointer, resource, Buffer.byteLength(resource), options, made, error), error);
        this.pointer = made[0];
        // What the library itself takes when it is -1: a lock is told lost that long before its validity ends.
        this.marginMs = options.lost_margin_ms >= 0 ? options.lost_margin_ms : Math.min(1000, Math.floor(options.ttl_ms / 10));
        this.timer = null;
    }

    acquire(waitMs) {
        return away(acquire, this.pointer, waitMs);
    }

    cancel() {
        cancel(this.pointer);
    }

    release() {
        this.unwatch();
        return away(release, this.pointer);
    }

    free() {
        this.unwatch();
        return away(lockFree, this.pointer);
    }

    get state() {
        return lockState(this.pointer);
    }

    get validityMs() {
        return Number(validityMs(this.pointer));
    }

    /**
     * Calls told(state, left) when the state has become another, with the milliseconds until validity ends. Asks four times
     * within the margin before that. What keeps the loop busy longer than the margin asks validityMs when it is done.
     */
    watch(told) {
        let before = this.state, validUntil = performance.now() + this.validityMs;
        this.timer = setInterval(() => {
            const now = this.state, left = this.validityMs;
            if (left > 0) validUntil = performance.now() + left; // a lost lock has none left
            if (now === before) return;
            before = now;
            if (now === LOST_STATE) this.unwatch();
            told(now, Math.round(validUntil - performance.now()));
        }, Math.max(1, Math.floor(this.marginMs / 4)));
    }

    unwatch() {
        clearInterval(this.timer);
        this.timer = null;
    }
}

module.exports = { Client, Lock, OK, HELD, LOST_STATE, UNSURE_STATE, text: resultText };
