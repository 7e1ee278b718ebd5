/* SPDX-License-Identifier: BSD-2-Clause
 *
 * The line of those who wait for one lock, as a node keeps it: the rules of src/node/waiting.lua in
 * C. A hint for them alone. Kept equal to the script by a test against a real server
 * (tests/sim/test_queue.c).
 */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

enum { QUEUE_MAX = 32 };

struct queue_place {
    uint32_t waiter;            /* names it */
    uint16_t address;           /* the caller's: where it is told */
    int64_t since_us, until_us; /* by the node's clock: when it came; when it is forgotten */
};

/* By `since_us`; of two that came at once the lower name is first. */
struct queue {
    unsigned count;
    int64_t ends_ms; /* the whole of it: when nobody has asked for a place for so long */
    struct queue_place place[QUEUE_MAX];
};

/* What a waiter asks, at `now_us` of the node's clock. */
struct queue_request {
    uint32_t waiter;
    uint16_t address;
    int64_t lease_ms; /* how long it is remembered; 0: it leaves */
    int64_t age_us;   /* how long it has waited */
    bool passes;      /* it leaves, and those before it did not come when it was their turn */
};

/* Whose turn is near, and learns it: its rank. */
struct queue_news {
    unsigned count;
    struct queue_notice {
        struct queue_place place;
        int rank;
    } notices[QUEUE_MAX];
};

/* How many are before the waiter, or, when it left, how many remain; -1: the line is full. `armed`
 * at the head are told. */
int64_t queue_ask(struct queue *queue, const struct queue_request *request, int64_t now_us,
                  unsigned armed, struct queue_news *news);

#endif
