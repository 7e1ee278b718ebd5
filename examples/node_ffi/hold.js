#!/usr/bin/env node
// SPDX-License-Identifier: BSD-2-Clause
'use strict';
// Holds a lock for a while and says what becomes of it.
//
// usage: hold.js URLS RESOURCE SECONDS [TTL_MS]     (libredlock.so.0 from where the loader finds it, or REDLOCK_LIBRARY)
// Exit status: 0 held to the end; 75 held by another; 69 no quorum; 80 lost meanwhile; 64 usage; 78 wrong URL.
const redlock = require('./redlock.js');

const WAIT_MS = 2000;

function sleep(ms, signal) {
    return new Promise((done) => {
        const timer = setTimeout(done, ms);
        signal.addEventListener('abort', () => { clearTimeout(timer); done(); }, { once: true });
    });
}

/** A program would do its work here, and stop it when `lost` is aborted. Being busy for long is no matter: see redlock.js. */
async function work(seconds, lost) {
    await sleep(seconds * 1000, lost);
}

async function hold(lock, seconds, stop) {
    let status = 0;
    lock.watch((state, left) => {
        if (state === redlock.LOST_STATE) {
            console.log(`lost: told ${left} ms before validity ends`);
            status = 80;
            stop.abort();
        } else {
            console.log(`${state === redlock.UNSURE_STATE ? 'unsure' : 'sure again'}, ${left} ms left`);
        }
    });
    await work(seconds, stop.signal);
    if (status === 0 && stop.signal.aborted) status = 130;
    if (status === 0) console.log(`released: ${redlock.text(await lock.release())}`);
    return status;
}

async function run(nodes, resource, seconds, ttlMs) {
    const client = new redlock.Client(nodes);
    const lock = new redlock.Lock(client, resource, { ttl_ms: ttlMs, owner: 'hold.js' });
    const stop = new AbortController();
    process.once('SIGINT', () => { stop.abort(); lock.cancel(); });
    try {
        const result = await lock.acquire(WAIT_MS);
        if (stop.signal.aborted) return 130;
        if (result !== redlock.OK) {
            console.log(`${resource}: ${redlock.text(result)}`);
            return result === redlock.HELD ? 75 : 69;
        }
        console.log(`${resource}: held, sure for ${lock.validityMs} ms`);
        return await hold(lock, seconds, stop);
    } finally {
        await lock.free();
        await client.free();
    }
}

async function main(words) {
    if (words.length !== 3 && words.length !== 4) {
        console.error('usage: hold.js URLS RESOURCE SECONDS [TTL_MS]');
        return 64;
    }
    try {
        return await run(words[0], words[1], Number(words[2]), Number(words[3] || 30000));
    } catch (why) {
        console.error(why.message);
        return 78;
    }
}

main(process.argv.slice(2)).then((status) => { process.exitCode = status; });
