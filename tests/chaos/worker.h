/* SPDX-License-Identifier: BSD-2-Clause
 *
 * A worker: slots that acquire, stay and release, by blocking calls in a thread each or all in one
 * event loop. Both write down what judge.py needs.
 */
#ifndef CHAOS_WORKER_H
#define CHAOS_WORKER_H

#include <signal.h>

#include <redlock.h>

#include "record.h"

struct worker {
    const char *nodes, *log_path, *register_path, *quorum;
    char owner[32];
    int mode, allow_replicas, confirm, observes;
    uint32_t resources, slots;
    uint32_t semaphores, elections, shared_percent; /* 0: none of these */
    unsigned seed;
    int64_t ttl_ms, hold_us_max;
    struct redlock_client *client;
    struct chaos_cell *cells;
    int log;
};

enum turn { TURN_WRITES, TURN_READS, TURN_SLOTS, TURN_LEADS };

struct slot {
    struct worker *worker;
    struct redlock_lock *lock;
    uint32_t id, turn;
    unsigned seed;
    uint32_t resources[2]; /* of the present turn */
    uint32_t count, semaphore;
    enum turn kind;
    bool only_reads; /* a reader, or a writer that has begun to become one */
    int last_result;
    int64_t asked_ns, leave_ns; /* when it called; when it means to leave */
    int64_t downgrade_ns;       /* when it means to become a reader; INT64_MAX: never */
};

extern volatile sig_atomic_t worker_ended;

_Noreturn void die(const char *what, const char *why);

uint32_t slot_random(struct slot *slot, uint32_t below);
/* Draws the resources of a turn, and makes their lock. */
void slot_begin(struct slot *slot);
int64_t slot_wait_ms(struct slot *slot);
/* The lock is held: writes it down, and says until when to stay. */
void slot_entered(struct slot *slot);
/* Writes down that it becomes a reader; the downgrade comes after. */
void slot_downgrades(struct slot *slot);
/* Writes down that it leaves; the release comes after. */
void slot_leaves(struct slot *slot);
/* The acquisition failed. */
void slot_failed(struct slot *slot, int result);
void slot_end(struct slot *slot);

/* Writes down what the observers of all elections report, until watch_end(). */
struct watch;
struct watch *watch_begin(struct worker *worker);
void watch_end(struct watch *watch);

/* Until SIGTERM. */
void loop_run(struct worker *worker, struct slot *slots);

#endif
