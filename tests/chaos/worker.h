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
    int mode, allow_replicas, confirm;
    uint32_t resources, slots;
    unsigned seed;
    int64_t ttl_ms, hold_us_max;
    struct redlock_client *client;
    struct chaos_cell *cells;
    int log;
};

struct slot {
    struct worker *worker;
    struct redlock_lock *lock;
    uint32_t id, turn;
    unsigned seed;
    uint32_t resources[2]; /* of the present turn */
    uint32_t count;
    int last_result;
    int64_t asked_ns, leave_ns; /* when it called; when it means to leave */
};

extern volatile sig_atomic_t worker_ended;

uint32_t slot_random(struct slot *slot, uint32_t below);
/* Draws the resources of a turn, and makes their lock. */
void slot_begin(struct slot *slot);
int64_t slot_wait_ms(struct slot *slot);
/* The lock is held: writes it down, and says until when to stay. */
void slot_entered(struct slot *slot);
/* Writes down that it leaves; the release comes after. */
void slot_leaves(struct slot *slot);
/* The acquisition failed. */
void slot_failed(struct slot *slot, int result);
void slot_end(struct slot *slot);

/* Until SIGTERM. */
void loop_run(struct worker *worker, struct slot *slots);

#endif
