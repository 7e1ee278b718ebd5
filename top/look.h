/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The observer of redlock top: looks at the nodes and their locks, and keeps what it sees in a
 * model. One thread looks. Other threads may read the model while they hold the mutex.
 */
#ifndef TOP_LOOK_H
#define TOP_LOOK_H

#include <pthread.h>

#include "explain/readers.h"
#include "frame/session.h"
#include "model.h"

/* One lock in detail; node i's answers are [i]. */
struct top_detail {
    void *resource; /* NULL: none is wanted */
    size_t bytes;
    bool seen; /* the views are those of this resource */
    struct redlock_view views[REDLOCK_NODES_MAX];
    struct redlock_queue_view queues[REDLOCK_NODES_MAX];
    struct readers readers; /* of a shared lock */
};

struct top_observer {
    struct session session;
    pthread_mutex_t mutex; /* held by the looking thread while it changes what is below */
    struct top_model model;
    struct top_detail detail;
    /* Bits, by node: this user may not list its names, or may not read what it holds. The thread
     * that looks has these for itself. */
    uint32_t unlisted, unread, told;
    int result; /* of the last look: OK, or NO_QUORUM: too few nodes answered */
};

/* The session is open. */
void top_observer_init(struct top_observer *observer, size_t rows_max);
void top_observer_free(struct top_observer *observer); /* closes the session */
/* One look, whose walk over the keys takes a part of the interval; 0: until it is complete. Returns
 * OK, NO_QUORUM, or what prevents any further look (NO_MEMORY). */
int top_look(struct top_observer *observer, int64_t interval_ms);

#endif
