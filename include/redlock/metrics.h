/* SPDX-License-Identifier: BSD-2-Clause
 *
 * What a program measures about its locks: counters, histograms, and an event for each change of a
 * lock. metrics.md shows how to export them. Times, threads, memory and struct sizes
 * are as redlock.h describes.
 */
#ifndef REDLOCK_METRICS_H
#define REDLOCK_METRICS_H

#include <string.h>

#include "../redlock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- histograms --------------------------------------------------------------------------- */

/* Durations in buckets of fixed bounds: 16 us, 24 us, 32 us, 48 us, 64 us, and so on: two for each
 * power of two, up to 34360 s. Each bucket counts alone: bucket i has the durations above bound
 * i - 1 and up to bound i; the last one has all that are longer. The layout never changes, so
 * histograms of several clients can be added. */
#define REDLOCK_HISTOGRAM_BUCKETS 64
struct redlock_histogram {
    uint64_t count;  /* of all buckets */
    uint64_t sum_ns; /* of all durations */
    uint64_t buckets[REDLOCK_HISTOGRAM_BUCKETS];
};
/* The upper bound of a bucket in nanoseconds, which belongs to the bucket. INT64_MAX for the last
 * one, and for a number out of range. */
REDLOCK_API int64_t redlock_histogram_bound_ns(size_t bucket);
/* Adds the durations of `more` to `histogram`, for example those of another client. Both belong to
 * the caller. */
REDLOCK_API void redlock_histogram_merge(struct redlock_histogram *histogram,
                                         const struct redlock_histogram *more);

/* ---- counters ----------------------------------------------------------------------------- */

/* Counters since the client was opened. */
struct redlock_stats {
    size_t size;       /* set by _init() */
    uint64_t attempts; /* tries to acquire; each is one round of votes */
    uint64_t acquired;
    uint64_t retries;
    uint64_t votes_granted;
    uint64_t votes_denied;
    uint64_t votes_lost; /* timeouts, lost connections and errors of a node */
    uint64_t extensions;
    uint64_t extensions_failed;
    uint64_t released;
    uint64_t lost;
    uint64_t reconnects;
    uint64_t splits;  /* tries that failed because votes were divided between clients */
    uint64_t wakeups; /* hints from nodes to waiting callers */
    /* How often renewals could not keep up, counted at most once in 10 s, and logged as a WARNING.
     * It is counted before a lock is lost for that reason: when a quarter of the time for its
     * renewal has passed. */
    uint64_t overloads;
    uint64_t renewals_needed; /* at the last overload: renewals a second that held locks need ... */
    uint64_t renewals_done;   /* ... and that were done since the first one was late */
    /* From the call that acquires to the acquired lock. Acquisitions that fail are not in it. */
    struct redlock_histogram waited;
    /* From the acquired lock to the call that releases or frees it, or to its loss. For a lock
     * that was adopted, from its adoption. Locks that are disowned are not in it. */
    struct redlock_histogram held;
    /* The validity that was left when a release began. Lost locks are not in it: `lost` counts
     * them. Values near 0 show locks that were almost lost. */
    struct redlock_histogram validity_left;
    /* From the first sign that the lock has become free to the acquired lock. The sign is that
     * nodes reported a change or an absent key, or that the keys' TTLs ended, so that together a
     * majority may be free. Only acquisitions that waited and got such a sign are in it; see
     * waiting.md. The way of the report from the node to this client is not in it. */
    struct redlock_histogram handed_over;
    /* Guarded: the quorum's ttl_max as this client knows it, in milliseconds; 0: not known. */
    int64_t ttl_max_ms;
};
static inline void redlock_stats_init(struct redlock_stats *stats) {
    memset(stats, 0, sizeof *stats);
    stats->size = sizeof *stats;
}
/* Fills *stats with the counters as they are now. OK, BAD_ARGUMENT, FORKED. */
REDLOCK_API int redlock_client_stats(struct redlock_client *client, struct redlock_stats *stats);

/* ---- events ------------------------------------------------------------------------------- */

enum redlock_event_kind {
    REDLOCK_EVENT_ACQUIRED = 1,
    REDLOCK_EVENT_FAILED = 2,   /* an acquisition that had begun ended without the lock */
    REDLOCK_EVENT_EXTENDED = 3, /* an extension or a renewal has ended. Not OK: it failed; of
                                   renewals that fail in a row only the first is reported */
    REDLOCK_EVENT_LOST = 4,
    REDLOCK_EVENT_RELEASED = 5, /* NO_QUORUM also for a lock that was freed before all nodes had
                                   answered */
    REDLOCK_EVENT_DISOWNED = 6  /* redlock_lock_disown() */
};

/* What happened to a lock. It has no token, and all of it is valid during the call only. */
struct redlock_event {
    size_t size; /* what the library fills. Fields behind it do not exist */
    int kind;    /* enum redlock_event_kind */
    int result;  /* enum redlock_result: OK, or why it failed; LOST for LOST */
    /* The same for all events of one lock until it is freed. For comparison only. */
    const struct redlock_lock *lock;
    const struct redlock_bytes *resources; /* without the key prefix */
    size_t resources_count;
    int64_t fence; /* guarded: the fencing token; 0: none */
    /* In nanoseconds of CLOCK_BOOTTIME. What began: the call (ACQUIRED, FAILED, RELEASED), the
     * requests (EXTENDED), or the hold (LOST, DISOWNED). */
    int64_t began_ns, ended_ns;
    int64_t acquired_ns;     /* when the lock was acquired or adopted; 0 for FAILED */
    int64_t validity_end_ns; /* ACQUIRED, EXTENDED; 0: no validity is proven */
    uint32_t tries;          /* ACQUIRED, FAILED: rounds of votes; else 0 */
    const int *verdicts;     /* as of redlock_verdicts(); node i's is verdicts[i] */
    size_t nodes;
};
/* Runs at once, in any thread that drives the client, while the client's work waits for it. It must
 * not call the library and must not block: a function that is slow delays renewals of all locks of
 * the client. Copy what a slow consumer needs. */
typedef void redlock_event_fn(void *context, const struct redlock_event *event);
/* Calls `each` for every event of this client's locks from now on; NULL ends that. When it returns,
 * the function that was set before does not run any more. An acquisition that is refused before it
 * begins (BAD_ARGUMENT, BUSY, ...) has no event. Do not call it from an event. OK, FORKED. */
REDLOCK_API int redlock_client_observe(struct redlock_client *client, redlock_event_fn *each,
                                       void *context);

#ifdef __cplusplus
}
#endif
#endif
