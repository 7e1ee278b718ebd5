/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The wait queue of one lock, as a node keeps it: the rules of src/node/waiting.lua in C. It is
 * only a hint. A test against a real server keeps it equal to the script (tests/sim/test_queue.c).
 */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

enum { QUEUE_MAX = 32 };

struct queue_place {
    uint32_t waiter;            /* names the waiter */
    uint32_t address;           /* the address of its notifications */
    int64_t since_us, until_us; /* by the node's clock: when it came; when it expires */
};

/* Sorted by `since_us`; of two with the same time, the lower name is first. */
struct queue {
    unsigned count;
    /* of the whole queue: it ends when no waiter has asked for a place for this time */
    int64_t ends_ms;
    struct queue_place place[QUEUE_MAX];
};

/* A waiter's request, at `now_us` of the node's clock. */
struct queue_request {
    uint32_t waiter;
    uint32_t address;
    int64_t lease_ms; /* how long the place is kept; 0: it leaves */
    int64_t age_us;   /* how long it has waited */
    bool passes;      /* it leaves, and those before it did not come in their turn */
};

/* The waiters near the head that are notified of their ranks. */
struct queue_news {
    unsigned count;
    struct queue_notice {
        struct queue_place place;
        int rank;
    } notices[QUEUE_MAX];
};

/* The number of waiters before this one, or, when it left, of those that remain; -1: the queue is
 * full. The first `armed` ones are notified. */
int64_t queue_ask(struct queue *queue, const struct queue_request *request, int64_t now_us,
                  unsigned armed, struct queue_news *news);

/* For an observer: how many wait, and in *age_us for how long the first one has. Changes nothing.
 */
int64_t queue_peek(const struct queue *queue, int64_t now_us, int64_t *age_us);

#endif
